// The connection of a session: records in, frames out.
//
// Thread safety: one thread receives; any thread may send. mutex_ guards the TLS state and the
// outbox. send() blocks while the frames that the client has not read exceed their budget: the
// stream in shared memory, kOutboxBytes with TLS. The receiving thread blocks on shared memory
// only.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/shared_memory.h"
#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::server {

class Link {
 public:
  explicit Link(transport::Tls tls);
  // Records and frames travel through shared memory; the end of the connection is the end of the
  // client.
  Link(int socket, std::unique_ptr<transport::SharedMemory> shared);

  // Appends at most `most` received bytes to `buffer`. Waits for them up to `timeout_ms`, or until
  // wake(). False when the client is gone.
  bool receive(std::vector<uint8_t>& buffer, size_t most, int timeout_ms);

  // Queues a frame and sends as much as the socket takes; receive() sends the rest.
  void send(wire::Frame kind, const void* head, size_t head_bytes, const void* body = nullptr,
            size_t body_bytes = 0);

  // Takes no more records, and blocks until the client has closed the connection. A process that
  // ends before, while records of the client are unread, resets the connection: the client may
  // lose frames.
  void wait_for_close();

  // Blocks until the client has closed the connection, or has ended.
  void wait_for_end() const;

  // False while the outbox exceeds its budget, and at the end. The receiving thread then takes no
  // records, because they may cause frames; it goes on sending.
  bool has_room() const {
    return !full_.load(std::memory_order_relaxed) && !closing_.load(std::memory_order_relaxed);
  }

  // True if send() may block, because the client has not read what is there.
  bool may_block() const { return !has_room() || (shared_ && shared_->is_half_full()); }

  bool alive() const { return alive_.load(std::memory_order_relaxed); }
  void wake();  // ends a wait of receive()
  // Null without shared memory.
  transport::SharedMemory* shared() { return shared_.get(); }
  uint64_t bytes_in() const { return in_; }
  uint64_t bytes_out() const { return out_; }

 private:
  // With the lock held.
  void flush();
  void discard_outbox();
  void wait_for_room(std::unique_lock<std::mutex>& lock);
  bool receive_shared(std::vector<uint8_t>& buffer, size_t most, int timeout_ms);
  void watch_client();
  void send_shared(wire::Frame kind, const wire::FrameHeader& h, const void* head,
                   size_t head_bytes, const void* body, size_t body_bytes);
  std::mutex mutex_;
  int socket_ = -1;
  transport::Tls tls_;
  std::unique_ptr<transport::SharedMemory> shared_;
  std::atomic<bool> woken_{false};
  std::string outbox_;
  std::condition_variable room_;
  std::atomic<bool> full_{false}, closing_{false};
  std::atomic<std::thread::id> receiver_{};                 // the thread that makes room
  std::array<uint8_t, transport::kTlsRecordBytes> record_;  // of the receiving thread
  size_t sent_ = 0;                                         // of the outbox
  int wake_fd_;
  std::atomic<bool> alive_{true};
  std::atomic<uint64_t> in_{0}, out_{0};
};

}  // namespace busbar::server
