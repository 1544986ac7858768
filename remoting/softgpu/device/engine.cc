#include "softgpu/device/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softgpu {

namespace {
constexpr uint32_t kMagic = 0x55504753, kVersion = 3;

uint64_t number(const char* name, uint64_t fallback, uint64_t lowest, uint64_t highest) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  uint64_t v = std::strtoull(text, nullptr, 0);
  return std::clamp(v, lowest, highest);
}

int futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  return (int)syscall(SYS_futex, word, op, value, timeout, nullptr, 0);
}

void initialise(SharedDevice* d, const DeviceConfig& config) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&d->mutex, &a);
  d->memory_bytes = config.memory_bytes;
  d->multiprocessors = config.multiprocessors;
  d->compute_major = config.compute_major;
  d->compute_minor = config.compute_minor;
  d->holder = -1;
  d->version = kVersion;
  d->magic = kMagic;
}
}  // namespace

DeviceConfig config_from_environment() {
  DeviceConfig c;
  c.count = (int)number("BUSBAR_SOFTGPU_DEVICES", 1, 1, kMaxDevices);
  c.memory_bytes = number("BUSBAR_SOFTGPU_MEMORY_BYTES", c.memory_bytes, 64ull << 20, 1ull << 40) &
                   ~((2ull << 20) - 1);
  c.multiprocessors = (uint32_t)number("BUSBAR_SOFTGPU_MULTIPROCESSORS", c.multiprocessors, 1, 256);
  if (const char* cc = std::getenv("BUSBAR_SOFTGPU_COMPUTE_CAPABILITY"))
    std::sscanf(cc, "%u.%u", &c.compute_major, &c.compute_minor);
  return c;
}

std::string state_directory() {
  if (const char* dir = std::getenv("BUSBAR_SOFTGPU_DIR"); dir && *dir) return dir;
  return "/dev/shm/busbar-softgpu-" + std::to_string(getuid());
}

// Map the shared file of a device; create and initialise it if necessary. Return null on failure.
// `file` gets its descriptor.
static SharedDevice* map_device(int index, const DeviceConfig& config, int& file) {
  std::string dir = state_directory();
  ::mkdir(dir.c_str(), 0700);
  std::string path = dir + "/gpu" + std::to_string(index);
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return nullptr;
  flock(fd, LOCK_EX);
  struct stat st;
  bool ok = fstat(fd, &st) == 0 && st.st_uid == geteuid();
  if (ok && st.st_size < (off_t)sizeof(SharedDevice)) ok = ftruncate(fd, sizeof(SharedDevice)) == 0;
  void* at = ok ? mmap(nullptr, sizeof(SharedDevice), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                : MAP_FAILED;
  if (at == MAP_FAILED) {
    ::close(fd);
    return nullptr;
  }
  auto* device = (SharedDevice*)at;
  if (device->magic != kMagic || device->version != kVersion) initialise(device, config);
  flock(fd, LOCK_UN);
  file = fd;
  return device;
}

Engine* Engine::open(int index, const DeviceConfig& config, bool take_slot) {
  int file = -1;
  SharedDevice* device = map_device(index, config, file);
  if (!device) return nullptr;
  auto* engine = new Engine;
  engine->shared_ = device;
  engine->file_ = file;
  if (!take_slot || engine->take_slot()) return engine;
  munmap(device, sizeof(SharedDevice));
  ::close(file);
  delete engine;
  return nullptr;
}

// The kernel releases the lock when the process ends, also in another PID namespace.
static struct flock byte_of(int slot) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = slot;
  range.l_len = 1;
  return range;
}

bool Engine::is_alive(int slot) const {
  if (slot == slot_) return true;
  struct flock range = byte_of(slot);
  return fcntl(file_, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool Engine::take_slot() {
  lock();
  reap();
  for (uint32_t i = 0; i < kSlots && slot_ < 0; ++i) {
    Slot& s = shared_->slots[i];
    struct flock range = byte_of((int)i);
    if (s.pid != 0 || fcntl(file_, F_OFD_SETLK, &range)) continue;
    s.memory_bytes = 0;
    s.busy_nanoseconds = 0;
    s.turns = 0;
    s.granted = 0;
    s.pid = getpid();
    slot_ = (int)i;
  }
  unlock();
  return slot_ >= 0;
}

void Engine::lock() {
  if (pthread_mutex_lock(&shared_->mutex) != EOWNERDEAD) return;
  pthread_mutex_consistent(
      &shared_->mutex);  // reap() repairs the members: it trusts live processes only
  reap();
}

void Engine::unlock() {
  pthread_mutex_unlock(&shared_->mutex);
}

void Engine::leave_queue(int slot) {
  uint32_t kept = 0;
  uint32_t order[kSlots];
  for (uint32_t i = 0; i < shared_->queue_length; ++i) {
    uint32_t s = shared_->queue[(shared_->queue_head + i) % kSlots];
    if ((int)s != slot) order[kept++] = s;
  }
  std::copy(order, order + kept, shared_->queue);
  shared_->queue_head = 0;
  shared_->queue_length = kept;
}

void Engine::reap() {
  for (uint32_t i = 0; i < kSlots; ++i) {
    Slot& s = shared_->slots[i];
    if (s.pid == 0 || is_alive((int)i)) continue;
    leave_queue((int)i);
    s.pid = 0;
    s.memory_bytes = 0;
    if (shared_->holder == (int)i) grant_next();
  }
}

void Engine::grant_next() {
  shared_->holder = -1;
  if (shared_->queue_length == 0) return;
  uint32_t next = shared_->queue[shared_->queue_head];
  shared_->queue_head = (shared_->queue_head + 1) % kSlots;
  __atomic_store_n(&shared_->queue_length, shared_->queue_length - 1, __ATOMIC_RELAXED);
  shared_->holder = (int)next;
  Slot& s = shared_->slots[next];
  s.turns++;
  s.granted.store(1);
  futex(&s.granted, FUTEX_WAKE, 1, nullptr);
}

void Engine::acquire() {
  Slot& me = shared_->slots[slot_];
  lock();
  if (shared_->holder == -1 && shared_->queue_length == 0) {
    shared_->holder = slot_;
    me.turns++;
    unlock();
    return;
  }
  me.granted.store(0);
  shared_->queue[(shared_->queue_head + shared_->queue_length) % kSlots] = (uint32_t)slot_;
  __atomic_store_n(&shared_->queue_length, shared_->queue_length + 1, __ATOMIC_RELAXED);
  unlock();
  while (me.granted.load() == 0) {
    timespec timeout{0, 50'000'000};
    futex(&me.granted, FUTEX_WAIT, 0, &timeout);
    if (me.granted.load()) break;
    lock();  // the process that holds the engine may have been killed
    reap();
    if (shared_->holder == -1) grant_next();
    unlock();
  }
}

void Engine::release(uint64_t busy) {
  shared_->slots[slot_].busy_nanoseconds += busy;
  shared_->busy_nanoseconds += busy;
  lock();
  if (shared_->holder == slot_) grant_next();
  unlock();
}

bool Engine::charge(uint64_t bytes) {
  lock();
  uint64_t used = 0;
  for (auto& s : shared_->slots)
    if (s.pid) used += s.memory_bytes;
  bool fits = bytes <= shared_->memory_bytes && used <= shared_->memory_bytes - bytes;
  if (!fits) {
    reap();
    used = 0;
    for (auto& s : shared_->slots)
      if (s.pid) used += s.memory_bytes;
    fits = bytes <= shared_->memory_bytes && used <= shared_->memory_bytes - bytes;
  }
  if (fits) shared_->slots[slot_].memory_bytes += bytes;
  unlock();
  return fits;
}

void Engine::refund(uint64_t bytes) {
  lock();
  uint64_t& held = shared_->slots[slot_].memory_bytes;
  held -= std::min(held, bytes);
  unlock();
}

uint64_t Engine::used_bytes() {
  lock();
  reap();
  uint64_t used = 0;
  for (auto& s : shared_->slots)
    if (s.pid) used += s.memory_bytes;
  unlock();
  return used;
}

}  // namespace softgpu
