// The ordered ring: many producers publish records, one consumer reads them in one total order.
//
// Thread safety: submit(), close(), wake() and submitted() may be called from any thread. All other
// members belong to the consumer thread. No lock is held; submit() blocks while the ring is full.
//
// The memory is mapped twice in a row, so that no record wraps. Zero in the first word of a record
// means "not yet published". The ring lies in this process or in memory shared by two processes; in
// shared memory the consumer must not trust what it reads (read_records()).
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace busbar::transport {

// Control words of a ring. A new ring is all zero. Positions are byte counts since the start.
struct RingHead {
  alignas(64) std::atomic<uint64_t> tail{0};    // end of the last reserved record
  alignas(64) std::atomic<uint64_t> head{0};    // end of the last consumed record
  alignas(64) std::atomic<uint32_t> parked{0};  // 1: the consumer sleeps; futex word when shared
  std::atomic<uint32_t> full_waiters{0};        // producers that wait for room
  std::atomic<uint32_t> head_epoch{0};          // futex word of those producers
  std::atomic<uint32_t> closed{0};
};

class Ring {
 public:
  // Creates a ring in memory of this process. Throws std::bad_alloc.
  explicit Ring(uint64_t bytes = 1ull << 20);
  // Uses existing memory, which is mapped twice in a row and outlives the ring.
  Ring(RingHead* head, uint8_t* memory, uint64_t bytes)
      : capacity_(bytes), head_(head), memory_(memory) {}
  ~Ring();
  Ring(const Ring&) = delete;

  // Copies a finished record into the ring. Returns its position (its end in the stream of bytes),
  // or 0 when the ring is closed. Blocks while the ring is full. Makes at most one system call, to
  // wake a parked consumer.
  uint64_t submit(const uint8_t* record, uint32_t bytes);

  // Returns the published whole records at the head: at least one if there is any, then as many as
  // fit in `max_bytes`. Only for a ring of this process.
  const uint8_t* peek(uint64_t max_bytes, uint64_t& bytes) const;
  void consume(uint64_t bytes);
  // Copies whole records, about `max_bytes`, to the end of `out` and consumes them. Returns false
  // when the head is no valid record: the producer is faulty or hostile.
  bool read_records(std::vector<uint8_t>& out, uint64_t max_bytes);

  bool empty() const;
  // Announces that the consumer is about to sleep. Returns true if the ring is empty; producers
  // then wake the consumer.
  bool park();
  void unpark() { head_->parked.store(0, std::memory_order_relaxed); }
  // For a shared ring, after park(): blocks until a record arrives, wake() or the timeout.
  void wait_for_records(int timeout_ms);
  void wake();
  int wake_fd() const { return wake_fd_; }  // for a ring of this process: readable after wake()
  void clear_wake();

  void close();  // makes submit() return 0
  uint64_t submitted() const { return head_->tail.load(std::memory_order_relaxed); }

 private:
  void wait_for_room(uint64_t tail, uint32_t bytes);
  const uint64_t capacity_;
  RingHead own_;
  RingHead* head_ = &own_;
  uint8_t* memory_ = nullptr;
  int wake_fd_ = -1;  // eventfd; -1: the consumer sleeps on `parked`
};

// Maps `bytes` of a file twice in a row. `populate` allocates the pages at once. Returns null on
// failure.
uint8_t* map_twice(int fd, uint64_t offset, uint64_t bytes, bool populate);

}  // namespace busbar::transport
