// The ordered ring: many threads publish records, one consumer takes them in one total order.
// Memory is mapped twice in a row, so that no record wraps. Zero in a record's first word means
// "not yet published". It lies in this process, or in memory that two processes share; then the
// consumer trusts nothing that it reads there.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace busbar::transport {

// The words of a ring. All zero is a new one.
struct RingHead {
  alignas(64) std::atomic<uint64_t> tail{0};
  alignas(64) std::atomic<uint64_t> head{0};
  alignas(64) std::atomic<uint32_t> parked{0};
  std::atomic<uint32_t> full_waiters{0}, head_epoch{0}, closed{0};
};

class Ring {
 public:
  explicit Ring(uint64_t bytes = 1ull << 20);  // of its own
  Ring(RingHead* head, uint8_t* memory, uint64_t bytes)
      : capacity_(bytes), head_(head), memory_(memory) {}  // `memory` is mapped twice in a row
  ~Ring();
  Ring(const Ring&) = delete;

  // Copies a finished record in. Returns its position (the end of the record in the whole stream),
  // or 0 when closed. Waits while the ring is full. One system call at most: the wake of a parked
  // consumer.
  uint64_t submit(const uint8_t* record, uint32_t bytes);

  // Published bytes at the head, whole records only, at most `most`. Only for a ring of this
  // process.
  const uint8_t* readable(uint64_t most, uint64_t& bytes) const;
  void consume(uint64_t bytes);
  // Appends whole records, about `most` bytes of them. False when the head is no record: the
  // producer is broken or hostile.
  bool take(std::vector<uint8_t>& out, uint64_t most);

  bool empty() const;
  // The consumer says that it is about to sleep; true when there is nothing to read and producers
  // will wake it.
  bool park();
  void unpark() { head_->parked.store(0, std::memory_order_relaxed); }
  void sleep(int timeout_ms);  // of a shared ring, after park(): until a record comes or wake()
  void wake();
  int wake_fd() const { return wake_fd_; }  // of a ring of this process: readable after a wake
  void drain_wake();

  void close();  // submitters return 0 from now on
  uint64_t submitted() const { return head_->tail.load(std::memory_order_relaxed); }

 private:
  bool wait_for_room(uint64_t tail, uint32_t bytes);
  const uint64_t capacity_;
  RingHead own_;
  RingHead* head_ = &own_;
  uint8_t* memory_ = nullptr;
  int wake_fd_ = -1;  // -1: the consumer sleeps on the parked word
};

// `bytes` of a file, mapped twice in a row. Null when it cannot be.
uint8_t* map_twice(int fd, uint64_t offset, uint64_t bytes,
                   bool populate);  // populate: no page fault later

}  // namespace busbar::transport
