#include "transport/ring.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "wire/format.h"

namespace busbar::transport {

static long futex(std::atomic<uint32_t>* word, int op, uint32_t value,
                  const timespec* patience = nullptr) {
  return syscall(SYS_futex, word, op, value, patience, nullptr, 0);
}

uint8_t* map_twice(int fd, uint64_t offset, uint64_t bytes, bool populate) {
  auto* area = (uint8_t*)mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  for (uint64_t i = 0; i < 2; ++i)
    if (mmap(area + i * bytes, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0), fd,
             (off_t)offset) == MAP_FAILED) {
      munmap(area, 2 * bytes);
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
  if (wake_fd_ < 0) return;  // the memory is somebody else's
  munmap(memory_, 2 * capacity_);
  ::close(wake_fd_);
}

bool Ring::wait_for_room(uint64_t tail, uint32_t bytes) {
  head_->full_waiters.fetch_add(1);
  uint32_t epoch = head_->head_epoch.load();
  timespec patience{0, 100'000'000};  // a consumer of another process may have died
  if (tail + bytes - head_->head.load() > capacity_ && !head_->closed.load())
    futex(&head_->head_epoch, FUTEX_WAIT, epoch, &patience);
  head_->full_waiters.fetch_sub(1);
  return !head_->closed.load();
}

// Holds no cancellation point: a thread that ended between reserving and publishing would leave a
// hole.
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
  std::memcpy(at + 8, record + 8, bytes - 8);
  uint64_t first;
  std::memcpy(&first, record, 8);
  reinterpret_cast<std::atomic<uint64_t>*>(at)->store(first, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head_->parked.load(std::memory_order_relaxed) && head_->parked.exchange(0)) wake();
  return tail + bytes;
}

const uint8_t* Ring::readable(uint64_t most, uint64_t& bytes) const {
  uint64_t head = head_->head.load(std::memory_order_relaxed), at = 0;
  const uint8_t* begin = memory_ + head % capacity_;
  while (at < capacity_) {
    uint64_t word =
        reinterpret_cast<const std::atomic<uint64_t>*>(begin + at)->load(std::memory_order_acquire);
    if (!word) break;
    uint32_t record = (uint32_t)word;
    if (at && at + record > most) break;
    at += record;
    if (at >= most) break;
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
    futex(&head_->head_epoch, FUTEX_WAKE, INT32_MAX);
  }
}

bool Ring::park() {
  head_->parked.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (empty()) return true;
  head_->parked.store(0);
  return false;
}

void Ring::sleep(int timeout_ms) {
  timespec patience{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000};
  futex(&head_->parked, FUTEX_WAIT, 1, &patience);
}

void Ring::wake() {
  if (wake_fd_ >= 0) {
    uint64_t one = 1;
    syscall(SYS_write, wake_fd_, &one, 8);
    return;
  }  // write() is a cancellation point
  head_->parked.store(0);
  futex(&head_->parked, FUTEX_WAKE, INT32_MAX);
}

void Ring::drain_wake() {
  uint64_t n;
  (void)!read(wake_fd_, &n, 8);
}

void Ring::close() {
  head_->closed.store(1);
  head_->head_epoch.fetch_add(1);
  futex(&head_->head_epoch, FUTEX_WAKE, INT32_MAX);
}

}  // namespace busbar::transport
