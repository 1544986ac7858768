#include "transport/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
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
constexpr uint64_t kRecordsAt = kHeadBytes, kFramesAt = kRecordsAt + kRecordBytes,
                   kChunksAt = kFramesAt + kFrameBytes;
constexpr uint64_t kAllBytes = kChunksAt + 2 * kSharedChunks * kSharedChunkBytes;
static_assert(sizeof(SharedHead) <= kHeadBytes);

long futex(std::atomic<uint32_t>* word, int op, uint32_t value,
           const timespec* patience = nullptr) {
  return syscall(SYS_futex, word, op, value, patience, nullptr, 0);
}

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
  if (fd < 0 || ftruncate(fd, (off_t)kAllBytes) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
    return nullptr;
  std::unique_ptr<SharedMemory> m(new SharedMemory(fd));
  if (!m->ready()) return nullptr;
  m->head_->bytes = kAllBytes;
  m->head_->magic = kMagic;
  return m;
}

std::unique_ptr<SharedMemory> SharedMemory::attach(int fd) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
               (uint64_t)st.st_size == kAllBytes;  // it can never shrink under us
  std::unique_ptr<SharedMemory> m(fixed ? new SharedMemory(fd) : nullptr);
  return m && m->ready() && m->head_->magic == kMagic ? std::move(m) : nullptr;
}

// ---- frames ----
void SharedMemory::write(const void* p, uint64_t n, const std::atomic<bool>& alive) {
  StreamHead& s = head_->frames;
  auto* at = (const uint8_t*)p;
  while (n && alive.load(std::memory_order_relaxed)) {
    uint64_t tail = s.tail.load(std::memory_order_relaxed),
             used = tail - s.head.load(std::memory_order_acquire);
    uint64_t room = used > kFrameBytes ? 0 : kFrameBytes - used, k = std::min(n, room);
    if (!k) {
      announce(false);
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

void SharedMemory::announce(bool can_wait) {
  StreamHead& s = head_->frames;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (can_wait && s.waiters.load(std::memory_order_relaxed) == 0 &&
      s.tail.load(std::memory_order_relaxed) - s.head.load(std::memory_order_relaxed) <
          kFrameBytes / 4)
    return;
  if (s.helpers.load(std::memory_order_relaxed) == 0 && s.parked.load(std::memory_order_relaxed) &&
      s.parked.exchange(0))
    futex(&s.parked, FUTEX_WAKE, INT32_MAX);
}

void SharedMemory::wake_reader() {
  head_->frames.parked.store(0);
  futex(&head_->frames.parked, FUTEX_WAKE, INT32_MAX);
}

bool SharedMemory::frames_waiting() const {
  return head_->frames.tail.load(std::memory_order_acquire) !=
         head_->frames.head.load(std::memory_order_relaxed);
}

uint64_t SharedMemory::read(std::vector<uint8_t>& out, uint64_t most) {
  StreamHead& s = head_->frames;
  uint64_t head = s.head.load(std::memory_order_relaxed),
           n = std::min(s.tail.load(std::memory_order_acquire) - head, most);
  if (!n || n > kFrameBytes) return 0;
  size_t before = out.size();
  out.resize(before + n);
  std::memcpy(out.data() + before, frames_memory_ + head % kFrameBytes, n);
  s.head.store(head + n, std::memory_order_release);
  if (n == kFrameBytes || most - n < kFrameBytes / 2) {
    s.room_wanted.fetch_add(1);
    futex(&s.room_wanted, FUTEX_WAKE, 1);
  }
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
    if (states[i].load(std::memory_order_relaxed) == 0 &&
        states[i].compare_exchange_strong(free, 1, std::memory_order_acquire))
      return (int)i;
  }
  return -1;
}

void SharedMemory::free_chunk(bool to_node, uint32_t i) {
  (to_node ? head_->to_node : head_->to_client)[i].store(0, std::memory_order_release);
}

// ---- meeting ----
namespace {
constexpr int kPatienceMs = 200, kStrangers = 8;

Secret proof(const Secret& key, const char* who) {
  Secret out;
  unsigned n = out.size();
  HMAC(EVP_sha256(), key.data(), (int)key.size(), (const unsigned char*)who, std::strlen(who),
       out.data(), &n);
  return out;
}

bool proves(const Secret& given, const Secret& key, const char* who) {
  Secret wanted = proof(key, who);
  return !CRYPTO_memcmp(given.data(), wanted.data(), wanted.size());
}

constexpr char kNode[] = "busbar shared memory: node", kClient[] = "busbar shared memory: client";

socklen_t name_of(const MeetingName& name, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  int n = std::snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "busbar-client-");
  for (uint8_t byte : name)
    n += std::snprintf(a.sun_path + 1 + n, sizeof a.sun_path - 1 - (size_t)n, "%02x", byte);
  return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}

void be_patient(int fd, int milliseconds) {
  timeval t{milliseconds / 1000, milliseconds % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}
}  // namespace

int listen_for_node(MeetingName& name) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un a;
  if (fd >= 0 && RAND_bytes(name.data(), (int)name.size()) == 1 &&
      bind(fd, (sockaddr*)&a, name_of(name, a)) == 0 && listen(fd, kStrangers) == 0)
    return fd;
  if (fd >= 0) close(fd);
  name = {};
  return -1;
}

int meet_client(const MeetingName& name, const Secret& key) {
  if (name == MeetingName{}) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un a;
  Secret mine = proof(key, kNode);
  if (fd >= 0 && connect(fd, (sockaddr*)&a, name_of(name, a)) == 0 &&
      send(fd, mine.data(), mine.size(), MSG_NOSIGNAL) == (ssize_t)mine.size()) {
    fcntl(fd, F_SETFL, 0);
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

bool share_with_node(int listener, const Secret& key, int memory) {
  for (int strangers = 0; strangers < kStrangers; ++strangers) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) break;  // the node was here before it said so
    be_patient(fd, kPatienceMs);
    Secret given{}, mine = proof(key, kClient);
    bool told = recv(fd, given.data(), given.size(), MSG_WAITALL) == (ssize_t)given.size() &&
                proves(given, key, kNode) &&
                control::send_message(fd, control::Kind::attach, mine.data(), (uint32_t)mine.size(),
                                      memory);
    close(fd);
    if (told) return true;
  }
  return false;
}

std::unique_ptr<SharedMemory> take_memory(int meeting, const Secret& key, int timeout_ms) {
  be_patient(meeting, timeout_ms);
  control::Header h;
  Secret given{};
  int memory = -1;
  std::unique_ptr<SharedMemory> m;
  if (control::receive_message(meeting, h, given.data(), given.size(), &memory) &&
      h.bytes == given.size() && memory >= 0 && proves(given, key, kClient))
    m = SharedMemory::attach(memory);
  if (memory >= 0) close(memory);
  close(meeting);
  return m;
}

}  // namespace busbar::transport
