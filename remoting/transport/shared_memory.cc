#include "transport/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "control/messages.h"

namespace busbar::transport {

namespace {
constexpr uint64_t kMagic = 0x3130534d52414253ull;
constexpr uint64_t kHeadBytes = 4096, kRecordBytes = 1ull << 20, kFrameBytes = 1ull << 20;
constexpr uint64_t kRecordsAt = kHeadBytes, kFramesAt = kRecordsAt + kRecordBytes, kChunksAt = kFramesAt + kFrameBytes;
constexpr uint64_t kAllBytes = kChunksAt + 2 * kSharedChunks * kSharedChunkBytes;
static_assert(sizeof(SharedHead) <= kHeadBytes);

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* patience = nullptr) { return syscall(SYS_futex, word, op, value, patience, nullptr, 0); }

void* map(int fd, uint64_t at, uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
  return p == MAP_FAILED ? nullptr : p;
}
}  // namespace

SharedMemory::SharedMemory(int fd) {
  head_ = (SharedHead*)map(fd, 0, kHeadBytes);
  records_memory_ = map_twice(fd, kRecordsAt, kRecordBytes, true);
  frames_memory_ = map_twice(fd, kFramesAt, kFrameBytes, false);
  chunks_ = (uint8_t*)map(fd, kChunksAt, 2 * kSharedChunks * kSharedChunkBytes);
  if (ready()) records_ = std::make_unique<Ring>(&head_->records, records_memory_, kRecordBytes);
}

SharedMemory::~SharedMemory() {
  if (head_) munmap(head_, kHeadBytes);
  if (records_memory_) munmap(records_memory_, 2 * kRecordBytes);
  if (frames_memory_) munmap(frames_memory_, 2 * kFrameBytes);
  if (chunks_) munmap(chunks_, 2 * kSharedChunks * kSharedChunkBytes);
}

std::unique_ptr<SharedMemory> SharedMemory::create(int& fd) {
  fd = memfd_create("busbar-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, (off_t)kAllBytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return nullptr;
  std::unique_ptr<SharedMemory> m(new SharedMemory(fd));
  if (!m->ready()) return nullptr;
  m->head_->bytes = kAllBytes;
  m->head_->magic = kMagic;
  return m;
}

std::unique_ptr<SharedMemory> SharedMemory::attach(int fd) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && (uint64_t)st.st_size == kAllBytes;   // it can never shrink under us
  std::unique_ptr<SharedMemory> m(fixed ? new SharedMemory(fd) : nullptr);
  return m && m->ready() && m->head_->magic == kMagic ? std::move(m) : nullptr;
}

// ---- frames ----
void SharedMemory::write(const void* p, uint64_t n, const std::atomic<bool>& alive) {
  StreamHead& s = head_->frames;
  auto* at = (const uint8_t*)p;
  while (n && alive.load(std::memory_order_relaxed)) {
    uint64_t tail = s.tail.load(std::memory_order_relaxed), used = tail - s.head.load(std::memory_order_acquire);
    uint64_t room = used > kFrameBytes ? 0 : kFrameBytes - used, k = std::min(n, room);
    if (!k) {
      announce();
      uint32_t seen = s.room_wanted.load();
      timespec patience{0, 1'000'000};
      if (tail - s.head.load() >= kFrameBytes) futex(&s.room_wanted, FUTEX_WAIT, seen, &patience);
      continue;
    }
    std::memcpy(frames_memory_ + tail % kFrameBytes, at, k);
    s.tail.store(tail + k, std::memory_order_release);
    at += k;
    n -= k;
  }
}

void SharedMemory::announce() {
  StreamHead& s = head_->frames;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (s.helpers.load(std::memory_order_relaxed) == 0 && s.parked.load(std::memory_order_relaxed) && s.parked.exchange(0)) futex(&s.parked, FUTEX_WAKE, INT32_MAX);
}

void SharedMemory::wake_reader() {
  head_->frames.parked.store(0);
  futex(&head_->frames.parked, FUTEX_WAKE, INT32_MAX);
}

bool SharedMemory::frames_waiting() const { return head_->frames.tail.load(std::memory_order_acquire) != head_->frames.head.load(std::memory_order_relaxed); }

uint64_t SharedMemory::read(std::vector<uint8_t>& out, uint64_t most) {
  StreamHead& s = head_->frames;
  uint64_t head = s.head.load(std::memory_order_relaxed), n = std::min(s.tail.load(std::memory_order_acquire) - head, most);
  if (!n || n > kFrameBytes) return 0;
  size_t before = out.size();
  out.resize(before + n);
  std::memcpy(out.data() + before, frames_memory_ + head % kFrameBytes, n);
  s.head.store(head + n, std::memory_order_release);
  if (n == kFrameBytes || most - n < kFrameBytes / 2) { s.room_wanted.fetch_add(1); futex(&s.room_wanted, FUTEX_WAKE, 1); }
  return n;
}

void SharedMemory::sleep_for_frames(int timeout_ms) {
  StreamHead& s = head_->frames;
  s.parked.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  timespec patience{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000};
  if (!frames_waiting()) futex(&s.parked, FUTEX_WAIT, 1, &patience);
  s.parked.store(0);
}

// ---- chunks ----
int SharedMemory::take_chunk(bool to_node) {
  auto* states = to_node ? head_->to_node : head_->to_client;
  for (uint32_t i = 0; i < kSharedChunks; ++i) {
    uint32_t free = 0;
    if (states[i].load(std::memory_order_relaxed) == 0 && states[i].compare_exchange_strong(free, 1, std::memory_order_acquire)) return (int)i;
  }
  return -1;
}

void SharedMemory::free_chunk(bool to_node, uint32_t i) { (to_node ? head_->to_node : head_->to_client)[i].store(0, std::memory_order_release); }

// ---- meeting ----
namespace {
constexpr char kProof[] = "busbar shared memory";

Secret proof(const Secret& key) {
  Secret out;
  unsigned n = out.size();
  HMAC(EVP_sha256(), key.data(), (int)key.size(), (const unsigned char*)kProof, sizeof kProof, out.data(), &n);
  return out;
}

socklen_t name_of(const uint8_t* id, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  int n = std::snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "busbar-session-");
  for (int i = 0; i < 16; ++i) n += std::snprintf(a.sun_path + 1 + n, sizeof a.sun_path - 1 - (size_t)n, "%02x", id[i]);
  return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}

void be_patient(int fd, int seconds) {
  timeval t{seconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}
}  // namespace

int listen_for_memory(const uint8_t* id) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un a;
  socklen_t n = name_of(id, a);
  if (fd >= 0 && bind(fd, (sockaddr*)&a, n) == 0 && listen(fd, 4) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

std::unique_ptr<SharedMemory> accept_memory(int listener, const Secret& key) {
  int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), memory = -1;
  if (fd < 0) return nullptr;
  be_patient(fd, 2);
  control::Header h;
  Secret given{}, wanted = proof(key);
  std::unique_ptr<SharedMemory> m;
  if (control::receive_message(fd, h, given.data(), given.size(), &memory) && h.bytes == given.size() && memory >= 0 && !CRYPTO_memcmp(given.data(), wanted.data(), wanted.size())) m = SharedMemory::attach(memory);
  control::send_message(fd, m ? control::Kind::ok : control::Kind::refused, nullptr, 0);
  if (memory >= 0) close(memory);
  close(fd);
  return m;
}

std::unique_ptr<SharedMemory> offer_memory(const uint8_t* id, const Secret& key) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), memory = -1;
  sockaddr_un a;
  socklen_t n = name_of(id, a);
  std::unique_ptr<SharedMemory> m;
  if (fd >= 0 && connect(fd, (sockaddr*)&a, n) == 0 && (m = SharedMemory::create(memory))) {
    be_patient(fd, 2);
    Secret p = proof(key);
    control::Header h;
    if (!control::send_message(fd, control::Kind::attach, p.data(), (uint32_t)p.size(), memory) || !control::receive_message(fd, h, nullptr, 0) || h.kind != (uint32_t)control::Kind::ok) m = nullptr;
  }
  if (memory >= 0) close(memory);
  if (fd >= 0) close(fd);
  return m;
}

uint32_t machine_mark() {
  char text[64] = {};
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? ::read(fd, text, sizeof text) : -1;
  if (fd >= 0) close(fd);
  uint32_t h = 2166136261u;
  for (ssize_t i = 0; i < n; ++i) h = (h ^ (uint8_t)text[i]) * 16777619u;
  return h | 1;                                           // never 0
}

}  // namespace busbar::transport
