#include "transport/ring.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "checked_size.h"
#include "transport/futex.h"
#include "transport/reuse_order.h"

namespace busbar::transport {

static uint64_t twice(uint64_t bytes) {
  return (CheckedSize(bytes) * 2).value();
}

uint8_t* map_twice(int fd, uint64_t offset, uint64_t bytes, bool populate) {
  auto* area = (uint8_t*)mmap(nullptr, twice(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  for (uint8_t* at : {area, area + bytes})
    if (mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0), fd,
             (off_t)offset) == MAP_FAILED) {
      munmap(area, twice(bytes));
      return nullptr;
    }
  return area;
}

Ring::Ring(uint64_t bytes) : capacity_(bytes) {
  int fd = memfd_create("busbar-ring", MFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0 || wake_fd_ < 0 || ftruncate(fd, (off_t)bytes) ||
      !(memory_ = map_twice(fd, 0, bytes, true)))
    throw std::bad_alloc();
  ::close(fd);
}

Ring::~Ring() {
  if (wake_fd_ < 0) return;  // the ring does not own its memory
  munmap(memory_, twice(capacity_));
  ::close(wake_fd_);
}

void Ring::wait_for_room(uint64_t tail, uint32_t bytes) {
  constexpr int kRecheckMs = 100;  // a consumer in another process may have died without a wake
  head_->full_waiters.fetch_add(1);
  uint32_t epoch = head_->head_epoch.load();
  if (tail + bytes - head_->head.load() > capacity_ && !head_->closed.load())
    futex_wait(head_->head_epoch, epoch, milliseconds(kRecheckMs), Scope::shared);
  head_->full_waiters.fetch_sub(1);
}

// Contains no cancellation point: a thread cancelled between reserving and publishing a record
// would block the ring forever.
uint64_t Ring::submit(const uint8_t* record, uint32_t bytes) {
  uint64_t tail = head_->tail.load(std::memory_order_relaxed);
  for (;;) {
    if (head_->closed.load(std::memory_order_relaxed)) return 0;
    if (tail + bytes - head_->head.load(std::memory_order_acquire) > capacity_) {
      wait_for_room(tail, bytes);
      tail = head_->tail.load(std::memory_order_relaxed);
    } else if (head_->tail.compare_exchange_weak(tail, tail + bytes, std::memory_order_relaxed))
      break;
  }
  uint8_t* at = memory_ + tail % capacity_;
  begin_reuse(memory_, tail, bytes, capacity_);
  std::memcpy(at + 8, record + 8, bytes - 8);
  uint64_t first;
  std::memcpy(&first, record, 8);
  end_use(memory_, tail, bytes, capacity_);
  reinterpret_cast<std::atomic<uint64_t>*>(at)->store(first, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head_->parked.load(std::memory_order_relaxed) && head_->parked.exchange(0)) wake();
  return tail + bytes;
}

const uint8_t* Ring::peek(uint64_t max_bytes, uint64_t& bytes) const {
  uint64_t head = head_->head.load(std::memory_order_relaxed), at = 0;
  const uint8_t* begin = memory_ + head % capacity_;
  while (at < capacity_) {
    uint64_t word =
        reinterpret_cast<const std::atomic<uint64_t>*>(begin + at)->load(std::memory_order_acquire);
    if (!word) break;
    uint32_t record = (uint32_t)word;
    if (at && at + record > max_bytes) break;
    at += record;
    if (at >= max_bytes) break;
  }
  bytes = at;
  return begin;
}

bool Ring::empty() const {
  uint64_t head = head_->head.load(std::memory_order_relaxed);
  return reinterpret_cast<const std::atomic<uint64_t>*>(memory_ + head % capacity_)
             ->load(std::memory_order_acquire) == 0;
}

void Ring::consume(uint64_t bytes) {
  uint64_t head = head_->head.load(std::memory_order_relaxed);
  std::memset(memory_ + head % capacity_, 0, bytes);
  head_->head.store(head + bytes, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head_->full_waiters.load()) {
    head_->head_epoch.fetch_add(1);
    futex_wake(head_->head_epoch, Scope::shared);
  }
}

bool Ring::park() {
  head_->parked.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (empty()) return true;
  head_->parked.store(0);
  return false;
}

void Ring::wait_for_records(int timeout_ms) {
  futex_wait(head_->parked, 1, milliseconds(timeout_ms), Scope::shared);
}

void Ring::wake() {
  if (wake_fd_ >= 0) {
    uint64_t one = 1;
    syscall(SYS_write, wake_fd_, &one, 8);  // unlike write(), no cancellation point
    return;
  }
  head_->parked.store(0);
  futex_wake(head_->parked, Scope::shared);
}

void Ring::clear_wake() {
  uint64_t n;
  (void)!read(wake_fd_, &n, 8);
}

void Ring::close() {
  head_->closed.store(1);
  head_->head_epoch.fetch_add(1);
  futex_wake(head_->head_epoch, Scope::shared);
}

}  // namespace busbar::transport
