// The ordered ring: many threads publish records, one consumer takes them in one total order.
// Memory is mapped twice in a row, so that no record wraps. Zero in a record's first word means "not yet published".
#pragma once
#include <atomic>
#include <cstdint>

namespace busbar::transport {

class Ring {
 public:
  explicit Ring(uint64_t bytes = 4ull << 20);
  ~Ring();
  Ring(const Ring&) = delete;

  // Copies a finished record in. Returns its position (the end of the record in the whole stream), or 0 when closed.
  // Waits while the ring is full. One system call at most: the wake of a parked consumer.
  uint64_t submit(const uint8_t* record, uint32_t bytes);

  // Published bytes at the head, whole records only, at most `most`.
  const uint8_t* readable(uint64_t most, uint64_t& bytes) const;
  void consume(uint64_t bytes);

  // The consumer says that it is about to sleep; true when there is nothing to read and producers will wake it.
  bool park();
  void unpark() { parked_.store(0, std::memory_order_relaxed); }
  int wake_fd() const { return wake_fd_; }        // readable after a wake
  void drain_wake();

  void close();                                   // submitters return 0 from now on
  uint64_t submitted() const { return tail_.load(std::memory_order_relaxed); }

 private:
  bool wait_for_room(uint64_t tail, uint32_t bytes);
  const uint64_t capacity_;
  uint8_t* memory_ = nullptr;
  int wake_fd_ = -1;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint32_t> parked_{0};
  std::atomic<uint32_t> full_waiters_{0}, head_epoch_{0}, closed_{0};
};

}  // namespace busbar::transport
