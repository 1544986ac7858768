// Shared memory of a session whose client and session server run on one machine.
//
// It holds a ring of records (client to server), a stream of frames (server to client) and chunks
// for bulk data in both directions. The TCP connection stays open without traffic; its end reports
// that the peer has ended.
//
// Thread safety: write() and notify_reader() need a lock of the caller, as do read() and
// sleep_for_frames() on the other end. All other members may be called from any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/ring.h"
#include "transport/tls.h"

namespace busbar::transport {

constexpr uint32_t kSharedChunks = 16;  // in each direction
constexpr uint64_t kSharedChunkBytes = 4ull << 20;

// Control words of a byte stream with one writer and one reader at a time.
struct StreamHead {
  alignas(64) std::atomic<uint64_t> tail{0};    // bytes written since the start
  alignas(64) std::atomic<uint64_t> head{0};    // bytes read since the start
  alignas(64) std::atomic<uint32_t> parked{0};  // 1: the reader sleeps on this word
  std::atomic<uint32_t> helpers{0};             // threads of the client that poll the stream
  std::atomic<uint32_t> waiters{0};             // threads of the client that sleep for a completion
  std::atomic<uint32_t> room_wanted{0};         // futex word of a writer that waits for room
};

struct SharedHead {
  uint64_t magic, bytes;
  RingHead records;
  StreamHead frames;
  std::atomic<uint32_t> to_node[kSharedChunks], to_client[kSharedChunks];  // 1: in use
  std::atomic<uint32_t> chunk_wanted{0};  // 1: the server waits for a chunk to the client
};

class SharedMemory {
 public:
  // Client: creates the memory and its file descriptor for the other end. Returns null on failure.
  static std::unique_ptr<SharedMemory> create(int& fd);
  // Server: maps a received file. Returns null if its size is wrong or it is not sealed against
  // shrinking.
  static std::unique_ptr<SharedMemory> attach(int fd);
  ~SharedMemory();

  Ring& records() { return *records_; }

  // Writes to the stream of frames. Blocks while the stream is full and `alive` is true.
  void write(const void* p, uint64_t n, const std::atomic<bool>& alive);
  // Wakes a sleeping reader. With `can_wait`, skips the wake while no client thread waits and less
  // than a quarter of the stream is used.
  void notify_reader(bool can_wait);
  // Appends the available bytes, at most `max_bytes`. Returns their number; does not block.
  uint64_t read(std::vector<uint8_t>& out, uint64_t max_bytes);
  bool has_frames() const;
  bool is_half_full() const;  // the stream of frames, for its writer
  // Registers a client thread that polls the stream. The writer then sends no wake.
  void add_poller() { head_->frames.helpers.fetch_add(1); }
  void remove_poller() { head_->frames.helpers.fetch_sub(1); }
  // Registers a client thread that sleeps for a completion. The writer then wakes the reader at
  // once.
  void add_waiter() { head_->frames.waiters.fetch_add(1); }
  void remove_waiter() { head_->frames.waiters.fetch_sub(1); }
  // Blocks until a frame arrives, wake_reader() or the timeout.
  void sleep_for_frames(int timeout_ms);
  void wake_reader();

  // Reserves a chunk. Returns -1 when all are in use.
  int acquire_chunk(bool to_node);
  // Wakes the server if it waits for a chunk to the client.
  void release_chunk(bool to_node, uint32_t chunk);
  uint32_t free_chunks(bool to_node) const;
  // Server, one thread: requests a wake for the next released chunk to the client. Returns true if
  // one is free now. chunk_released() tells whether that wake has been sent, once.
  bool want_chunk();
  bool chunk_released();
  uint8_t* chunk(bool to_node, uint32_t i) {
    return chunks_ + ((to_node ? 0 : kSharedChunks) + i) * kSharedChunkBytes;
  }

 private:
  explicit SharedMemory(int fd);
  bool ready() const { return head_ && records_memory_ && frames_memory_ && chunks_; }
  SharedHead* head_ = nullptr;
  uint8_t *records_memory_ = nullptr, *frames_memory_ = nullptr, *chunks_ = nullptr;
  std::unique_ptr<Ring> records_;
  bool chunk_requested_ = false;
};

}  // namespace busbar::transport
