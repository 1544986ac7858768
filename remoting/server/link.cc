#include "server/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "checked_size.h"

namespace busbar::server {

namespace {
constexpr int kWatchMs = 1000;
constexpr size_t kWriteBytes = 256 << 10;
constexpr size_t kOutboxBytes = 8 << 20;
}  // namespace

Link::Link(transport::Tls tls)
    : tls_(std::move(tls)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Link::Link(int socket, std::unique_ptr<transport::SharedMemory> shared)
    : socket_(socket), shared_(std::move(shared)), wake_fd_(-1) {
  std::thread([this] { watch_client(); }).detach();
}

void Link::wake() {
  if (shared_) {
    woken_ = true;
    shared_->records().wake();
    return;
  }
  uint64_t one = 1;
  (void)!::write(wake_fd_, &one, 8);
}

void Link::wait_for_end() const {
  pollfd p{shared_ ? socket_ : tls_.fd(), POLLRDHUP, 0};
  while (poll(&p, 1, kWatchMs) <= 0) {
  }
}

// Beside shared memory the connection carries no data: its end is the only sign of the client's.
void Link::watch_client() {
  wait_for_end();
  alive_ = false;
  wake();
}

bool Link::receive_shared(std::vector<uint8_t>& buffer, size_t most, int timeout_ms) {
  size_t before = buffer.size();
  for (bool waited = false;; waited = true) {
    if (!shared_->records().read_records(buffer, most)) {
      alive_ = false;
      return false;
    }
    in_ += buffer.size() - before;
    if (buffer.size() > before) return true;
    if (!alive_) return false;
    if (waited || timeout_ms == 0 || woken_.exchange(false)) return true;
    if (shared_->records().park() && !woken_ && !shared_->chunk_released())
      shared_->records().wait_for_records(timeout_ms);
    shared_->records().unpark();
  }
}

void Link::discard_outbox() {
  outbox_.clear();
  sent_ = 0;
}

void Link::flush() {
  while (sent_ < outbox_.size()) {
    ssize_t n =
        tls_.write_some(outbox_.data() + sent_, std::min(outbox_.size() - sent_, kWriteBytes));
    if (n < 0) {
      alive_ = false;
      discard_outbox();
    }
    if (n <= 0) break;
    sent_ += (size_t)n;
    out_ += (uint64_t)n;
  }
  if (sent_ == outbox_.size()) discard_outbox();
  if (sent_ > kOutboxBytes) {
    outbox_.erase(0, sent_);
    sent_ = 0;
  }
  full_ = outbox_.size() - sent_ > kOutboxBytes;
  if (!full_) room_.notify_all();
}

// The receiving thread makes room, so it never waits here.
void Link::wait_for_room(std::unique_lock<std::mutex>& lock) {
  if (receiver_ == std::this_thread::get_id()) return;
  room_.wait(lock, [this] { return !full_ || !alive_; });
}

void Link::send(wire::Frame kind, const void* head, size_t head_bytes, const void* body,
                size_t body_bytes) {
  CheckedSize bytes = CheckedSize(head_bytes) + body_bytes;
  wire::FrameHeader h{(uint32_t)bytes.value(), (uint16_t)kind, 0};
  std::unique_lock lock(mutex_);
  if (full_) wait_for_room(lock);
  if (!alive_) return;
  if (shared_) return send_shared(kind, h, head, head_bytes, body, body_bytes);
  outbox_.append((const char*)&h, sizeof h);
  outbox_.append((const char*)head, head_bytes);
  if (body_bytes) outbox_.append((const char*)body, body_bytes);
  flush();
  if (!outbox_.empty()) wake();  // receive() must poll for room in the socket
}

void Link::wait_for_close() {
  closing_ = true;
  if (shared_) return;  // the frames outlive this process
  while (alive_) {
    pollfd p{tls_.fd(), POLLRDHUP, 0};
    {
      std::lock_guard lock(mutex_);
      flush();
      if (!outbox_.empty()) p.events |= POLLOUT;
    }
    if (poll(&p, 1, kWatchMs) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR)) return;
  }
}

void Link::send_shared(wire::Frame kind, const wire::FrameHeader& h, const void* head,
                       size_t head_bytes, const void* body, size_t body_bytes) {
  shared_->write(&h, sizeof h, alive_);
  shared_->write(head, head_bytes, alive_);
  if (body_bytes) shared_->write(body, body_bytes, alive_);
  // A sleeping client need not wake for a completion without an error.
  uint32_t error = 0;
  if (kind == wire::Frame::completion) std::memcpy(&error, (const uint8_t*)head + 4, sizeof error);
  shared_->notify_reader(kind == wire::Frame::completion && !error);
  out_ += sizeof h + h.bytes;
}

bool Link::receive(std::vector<uint8_t>& buffer, size_t most, int timeout_ms) {
  if (shared_) return receive_shared(buffer, most, timeout_ms);
  bool waited = false;
  receiver_ = std::this_thread::get_id();
  for (;;) {
    bool writing;
    {
      std::lock_guard lock(mutex_);
      flush();
      ssize_t n = has_room() ? tls_.read_some(record_.data(), std::min(most, record_.size())) : 0;
      if (n < 0) alive_ = false;
      if (n > 0) {
        buffer.insert(buffer.end(), record_.begin(), record_.begin() + n);
        in_ += (uint64_t)n;
        return true;
      }
      if (!alive_) {
        room_.notify_all();
        return false;
      }
      writing = !outbox_.empty();
    }
    if (waited || timeout_ms == 0) return true;
    // While nothing is read, its end is the only sign of a client that sends no more.
    short events = (short)((has_room() ? POLLIN : POLLRDHUP) | (writing ? POLLOUT : 0));
    pollfd p[2] = {{tls_.fd(), events, 0}, {wake_fd_, POLLIN, 0}};
    int ready = poll(p, 2, timeout_ms);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && p[0].revents & POLLRDHUP) alive_ = false;
    if (p[1].revents) {
      uint64_t n;
      (void)!::read(wake_fd_, &n, 8);
      waited = true;
    }
    if (ready == 0) return true;
  }
}

}  // namespace busbar::server
