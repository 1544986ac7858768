#include "transport/ring.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace busbar::transport {

static long futex(std::atomic<uint32_t>* word, int op, uint32_t value) { return syscall(SYS_futex, word, op, value, nullptr, nullptr, 0); }

Ring::Ring(uint64_t bytes) : capacity_(bytes) {
  int fd = memfd_create("busbar-ring", MFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0 || wake_fd_ < 0 || ftruncate(fd, (off_t)bytes)) throw std::bad_alloc();
  auto* area = (uint8_t*)mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) throw std::bad_alloc();
  for (int i = 0; i < 2; ++i)
    if (mmap(area + (uint64_t)i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) throw std::bad_alloc();
  ::close(fd);
  memory_ = area;
}

Ring::~Ring() { munmap(memory_, 2 * capacity_); ::close(wake_fd_); }

bool Ring::wait_for_room(uint64_t tail, uint32_t bytes) {
  full_waiters_.fetch_add(1);
  uint32_t epoch = head_epoch_.load();
  if (tail + bytes - head_.load() > capacity_ && !closed_.load()) futex(&head_epoch_, FUTEX_WAIT, epoch);
  full_waiters_.fetch_sub(1);
  return !closed_.load();
}

uint64_t Ring::submit(const uint8_t* record, uint32_t bytes) {
  int cancel;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);   // a thread that dies between reserve and publish would leave a hole
  uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (;;) {
    if (closed_.load(std::memory_order_relaxed)) { pthread_setcancelstate(cancel, nullptr); return 0; }
    if (tail + bytes - head_.load(std::memory_order_acquire) > capacity_) {
      wait_for_room(tail, bytes);
      tail = tail_.load(std::memory_order_relaxed);
    } else if (tail_.compare_exchange_weak(tail, tail + bytes, std::memory_order_relaxed)) break;
  }
  uint8_t* at = memory_ + tail % capacity_;
  std::memcpy(at + 8, record + 8, bytes - 8);
  uint64_t first;
  std::memcpy(&first, record, 8);
  reinterpret_cast<std::atomic<uint64_t>*>(at)->store(first, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_relaxed) && parked_.exchange(0)) { uint64_t one = 1; (void)!write(wake_fd_, &one, 8); }
  pthread_setcancelstate(cancel, nullptr);
  return tail + bytes;
}

const uint8_t* Ring::readable(uint64_t most, uint64_t& bytes) const {
  uint64_t head = head_.load(std::memory_order_relaxed), at = 0;
  const uint8_t* begin = memory_ + head % capacity_;
  while (at < capacity_) {
    uint64_t word = reinterpret_cast<const std::atomic<uint64_t>*>(begin + at)->load(std::memory_order_acquire);
    if (!word) break;
    uint32_t record = (uint32_t)word;
    if (at && at + record > most) break;
    at += record;
    if (at >= most) break;
  }
  bytes = at;
  return begin;
}

void Ring::consume(uint64_t bytes) {
  uint64_t head = head_.load(std::memory_order_relaxed);
  std::memset(memory_ + head % capacity_, 0, bytes);
  head_.store(head + bytes, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (full_waiters_.load()) { head_epoch_.fetch_add(1); futex(&head_epoch_, FUTEX_WAKE, INT32_MAX); }
}

bool Ring::park() {
  parked_.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  uint64_t bytes;
  readable(1, bytes);
  if (bytes == 0) return true;
  parked_.store(0);
  return false;
}

void Ring::drain_wake() { uint64_t n; (void)!read(wake_fd_, &n, 8); }

void Ring::close() {
  closed_.store(1);
  head_epoch_.fetch_add(1);
  futex(&head_epoch_, FUTEX_WAKE, INT32_MAX);
}

}  // namespace busbar::transport
