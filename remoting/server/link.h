// The session's connection: records come in, frames go out. Reading is the executor's; any thread
// may send.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/shared_memory.h"
#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::server {

class Link {
 public:
  explicit Link(transport::Tls tls);
  // Records and frames go through shared memory, and the connection only says when the client is
  // gone.
  Link(int socket, std::unique_ptr<transport::SharedMemory> shared);

  // Appends received bytes to `buffer`; waits up to `timeout_ms` for some. False when the client is
  // gone.
  bool receive(std::vector<uint8_t>& buffer, size_t most, int timeout_ms);

  // Queues a frame and sends what the socket takes now; the rest goes when the executor polls.
  void send(wire::Frame kind, const void* head, size_t head_bytes, const void* body = nullptr,
            size_t body_bytes = 0);

  bool alive() const { return alive_.load(std::memory_order_relaxed); }
  void wake();  // ends a waiting receive()
  transport::SharedMemory* shared() { return shared_.get(); }
  uint64_t bytes_in() const { return in_; }
  uint64_t bytes_out() const { return out_; }

 private:
  void flush();  // call with the lock
  bool receive_shared(std::vector<uint8_t>& buffer, size_t most, int timeout_ms);
  void watch_client();
  std::mutex mutex_;  // guards tls_ and outbox_
  int socket_ = -1;
  transport::Tls tls_;
  std::unique_ptr<transport::SharedMemory> shared_;
  std::atomic<bool> woken_{false};
  std::string outbox_;
  std::array<uint8_t, transport::kTlsRecordBytes> record_;  // the executor's
  size_t sent_ = 0;
  int wake_fd_;
  std::atomic<bool> alive_{true};
  std::atomic<uint64_t> in_{0}, out_{0};
};

}  // namespace busbar::server
