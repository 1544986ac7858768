#include "transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "transport/futex.h"

namespace busbar::transport {

namespace {
constexpr uint64_t kMagic = 0x3130534d52414253ull;
// Sizes and offsets of the parts in the memory file.
constexpr uint64_t kHeadBytes = 4096, kRecordBytes = 1ull << 20, kFrameBytes = 1ull << 20;
constexpr uint64_t kRecordsAt = kHeadBytes;
constexpr uint64_t kFramesAt = kRecordsAt + kRecordBytes;
constexpr uint64_t kChunksAt = kFramesAt + kFrameBytes;
constexpr uint64_t kChunkBytes = 2ull * kSharedChunks * kSharedChunkBytes;
constexpr uint64_t kFileBytes = kChunksAt + kChunkBytes;
static_assert(sizeof(SharedHead) <= kHeadBytes);

void* map(int fd, uint64_t at, uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
  return p == MAP_FAILED ? nullptr : p;
}
}  // namespace

SharedMemory::SharedMemory(int fd) {
  head_ = (SharedHead*)map(fd, 0, kHeadBytes);
  records_memory_ = map_twice(fd, kRecordsAt, kRecordBytes, true);
  frames_memory_ = map_twice(fd, kFramesAt, kFrameBytes, false);
  chunks_ = (uint8_t*)map(fd, kChunksAt, kChunkBytes);
  if (ready()) records_ = std::make_unique<Ring>(&head_->records, records_memory_, kRecordBytes);
}

SharedMemory::~SharedMemory() {
  if (head_) munmap(head_, kHeadBytes);
  if (records_memory_) munmap(records_memory_, 2 * kRecordBytes);
  if (frames_memory_) munmap(frames_memory_, 2 * kFrameBytes);
  if (chunks_) munmap(chunks_, kChunkBytes);
}

std::unique_ptr<SharedMemory> SharedMemory::create(int& fd) {
  fd = memfd_create("busbar-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, (off_t)kFileBytes) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
    return nullptr;
  std::unique_ptr<SharedMemory> m(new SharedMemory(fd));
  if (!m->ready()) return nullptr;
  m->head_->bytes = kFileBytes;
  m->head_->magic = kMagic;
  return m;
}

std::unique_ptr<SharedMemory> SharedMemory::attach(int fd) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  // A file that the client could shrink would let it crash this process with SIGBUS.
  bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
               (uint64_t)st.st_size == kFileBytes;
  std::unique_ptr<SharedMemory> m(fixed ? new SharedMemory(fd) : nullptr);
  return m && m->ready() && m->head_->magic == kMagic ? std::move(m) : nullptr;
}

// ---- frames ----
void SharedMemory::write(const void* p, uint64_t n, const std::atomic<bool>& alive) {
  StreamHead& s = head_->frames;
  auto* at = (const uint8_t*)p;
  while (n && alive.load(std::memory_order_relaxed)) {
    uint64_t tail = s.tail.load(std::memory_order_relaxed);
    uint64_t used = tail - s.head.load(std::memory_order_acquire);
    uint64_t room = used > kFrameBytes ? 0 : kFrameBytes - used;
    uint64_t k = std::min(n, room);
    if (!k) {
      notify_reader(false);
      uint32_t seen = s.room_wanted.load();
      if (tail - s.head.load() >= kFrameBytes)
        futex_wait(s.room_wanted, seen, milliseconds(1), Scope::shared);
      continue;
    }
    std::memcpy(frames_memory_ + tail % kFrameBytes, at, k);
    s.tail.store(tail + k, std::memory_order_release);
    at += k;
    n -= k;
  }
}

bool SharedMemory::is_half_full() const {
  const StreamHead& s = head_->frames;
  return s.tail.load(std::memory_order_relaxed) - s.head.load(std::memory_order_relaxed) >
         kFrameBytes / 2;
}

void SharedMemory::notify_reader(bool can_wait) {
  StreamHead& s = head_->frames;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (can_wait && s.waiters.load(std::memory_order_relaxed) == 0 &&
      s.tail.load(std::memory_order_relaxed) - s.head.load(std::memory_order_relaxed) <
          kFrameBytes / 4)
    return;
  if (s.helpers.load(std::memory_order_relaxed) == 0 && s.parked.load(std::memory_order_relaxed) &&
      s.parked.exchange(0))
    futex_wake(s.parked, Scope::shared);
}

void SharedMemory::wake_reader() {
  head_->frames.parked.store(0);
  futex_wake(head_->frames.parked, Scope::shared);
}

bool SharedMemory::has_frames() const {
  return head_->frames.tail.load(std::memory_order_acquire) !=
         head_->frames.head.load(std::memory_order_relaxed);
}

uint64_t SharedMemory::read(std::vector<uint8_t>& out, uint64_t max_bytes) {
  StreamHead& s = head_->frames;
  uint64_t head = s.head.load(std::memory_order_relaxed);
  uint64_t n = std::min(s.tail.load(std::memory_order_acquire) - head, max_bytes);
  if (!n || n > kFrameBytes) return 0;
  size_t before = out.size();
  out.resize(before + n);
  std::memcpy(out.data() + before, frames_memory_ + head % kFrameBytes, n);
  s.head.store(head + n, std::memory_order_release);
  if (n == kFrameBytes || max_bytes - n < kFrameBytes / 2) {
    s.room_wanted.fetch_add(1);
    futex_wake(s.room_wanted, Scope::shared, 1);
  }
  return n;
}

void SharedMemory::sleep_for_frames(int timeout_ms) {
  StreamHead& s = head_->frames;
  s.parked.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_frames()) futex_wait(s.parked, 1, milliseconds(timeout_ms), Scope::shared);
  s.parked.store(0);
}

// ---- chunks ----
int SharedMemory::acquire_chunk(bool to_node) {
  auto* states = to_node ? head_->to_node : head_->to_client;
  for (uint32_t i = 0; i < kSharedChunks; ++i) {
    uint32_t free = 0;
    if (states[i].load(std::memory_order_relaxed) == 0 &&
        states[i].compare_exchange_strong(free, 1, std::memory_order_acquire))
      return (int)i;
  }
  return -1;
}

void SharedMemory::release_chunk(bool to_node, uint32_t chunk) {
  (to_node ? head_->to_node : head_->to_client)[chunk].store(0, std::memory_order_release);
  if (to_node) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head_->chunk_wanted.load(std::memory_order_relaxed) && head_->chunk_wanted.exchange(0))
    records_->wake();
}

uint32_t SharedMemory::free_chunks(bool to_node) const {
  auto* states = to_node ? head_->to_node : head_->to_client;
  return (uint32_t)std::count_if(states, states + kSharedChunks, [](auto& state) {
    return state.load(std::memory_order_relaxed) == 0;
  });
}

bool SharedMemory::want_chunk() {
  chunk_requested_ = true;
  head_->chunk_wanted.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return free_chunks(false) > 0;
}

bool SharedMemory::chunk_released() {
  if (!chunk_requested_ || head_->chunk_wanted.load()) return false;
  chunk_requested_ = false;
  return true;
}

}  // namespace busbar::transport
