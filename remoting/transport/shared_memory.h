// The carrier of a session whose two ends are on one machine: a ring of records one way, a stream
// of frames back, and chunks for bulk bytes both ways, in one piece of memory. The TLS connection
// stays and says when an end is gone.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/ring.h"
#include "transport/tls.h"

namespace busbar::transport {

constexpr uint32_t kSharedChunks = 16;  // each way
constexpr uint64_t kSharedChunkBytes = 4ull << 20;

// A stream of bytes with one writer and one reader at a time.
struct StreamHead {
  alignas(64) std::atomic<uint64_t> tail{0};
  alignas(64) std::atomic<uint64_t> head{0};
  alignas(64) std::atomic<uint32_t> parked{0};  // the reader sleeps
  std::atomic<uint32_t> helpers{0};  // threads of the reader's process that look at it right now
  std::atomic<uint32_t> waiters{0};  // threads of it that sleep until something is done
  std::atomic<uint32_t> room_wanted{0};  // the writer sleeps on this word
};

struct SharedHead {
  uint64_t magic, bytes;
  RingHead records;
  StreamHead frames;
  std::atomic<uint32_t> to_node[kSharedChunks], to_client[kSharedChunks];  // 1: in use
};

class SharedMemory {
 public:
  static std::unique_ptr<SharedMemory> create(int& fd);  // client; `fd` is for the other end
  static std::unique_ptr<SharedMemory> attach(
      int fd);  // node: null when it is not of the agreed size, or could shrink
  ~SharedMemory();

  Ring& records() { return *records_; }

  // Frames. write blocks while the stream is full, as long as `alive` says so.
  void write(const void* p, uint64_t n, const std::atomic<bool>& alive);
  // Wakes a sleeping reader, unless what was written can wait: nobody asks for it yet, and there is
  // much room.
  void announce(bool can_wait);
  uint64_t read(std::vector<uint8_t>& out, uint64_t most);  // appends what is there
  bool frames_waiting() const;
  void help(bool on) {
    if (on)
      head_->frames.helpers.fetch_add(1);
    else
      head_->frames.helpers.fetch_sub(1);
  }
  void wait(bool on) {
    if (on)
      head_->frames.waiters.fetch_add(1);
    else
      head_->frames.waiters.fetch_sub(1);
  }
  void sleep_for_frames(int timeout_ms);  // after park: until a frame comes
  void wake_reader();

  // Chunks: -1 when none is free now.
  int take_chunk(bool to_node);
  void free_chunk(bool to_node, uint32_t chunk);
  uint8_t* chunk(bool to_node, uint32_t i) {
    return chunks_ + ((to_node ? 0 : kSharedChunks) + i) * kSharedChunkBytes;
  }

 private:
  explicit SharedMemory(int fd);
  bool ready() const { return head_ && records_memory_ && frames_memory_ && chunks_; }
  SharedHead* head_ = nullptr;
  uint8_t *records_memory_ = nullptr, *frames_memory_ = nullptr, *chunks_ = nullptr;
  std::unique_ptr<Ring> records_;
};

// How the two ends find each other: the client listens on an abstract socket with a random name,
// which only the launcher is told. Each proves that it knows the session's key: the node when it
// connects, the client with the memory.
using MeetingName = std::array<uint8_t, 16>;
int listen_for_node(MeetingName& name);  // client: a descriptor, or -1 and no name
int meet_client(const MeetingName& name,
                const Secret& key);  // node: -1 when the client is not on this machine
bool share_with_node(int listener, const Secret& key,
                     int memory);  // client, once the node has met it; false: it had not
std::unique_ptr<SharedMemory> take_memory(
    int meeting, const Secret& key,
    int timeout_ms);  // node; closes the descriptor. Null: the proof was wrong

}  // namespace busbar::transport
