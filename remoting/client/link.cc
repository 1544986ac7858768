#include "client/link.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace busbar::client {

using transport::Tls;

namespace {
constexpr int kConnectMs = 5000, kHandshakeMs = 15'000, kOpenMs = 60'000;
// Rounds of looking at ring and socket before the thread sleeps. On few cores a spinning thread
// takes the time of the one it waits for.
const int kIdleRounds = std::thread::hardware_concurrency() < 4 ? 60 : 2000;
constexpr int kSpinRounds = 4000;   // of a waiting program thread
constexpr int kHelpedRounds = 100;  // of one for which another thread looks

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* t) {
  return syscall(SYS_futex, word, op, value, t, nullptr, 0);
}

void copy_program_name(char* to, size_t room) {
  FILE* f = std::fopen("/proc/self/comm", "r");
  if (!f) return;
  if (std::fgets(to, (int)room, f)) to[strcspn(to, "\n")] = 0;
  std::fclose(f);
}
}  // namespace

bool Link::open(const NodeTicket& node, const std::string& ca_pem, const transport::Secret& key,
                const std::vector<uint64_t>& free_addresses, std::string& description,
                std::string& error) {
  node_id_ = node.node_id;
  for (auto& e : node.endpoints) {
    std::string why;
    if (open_at(e, node, ca_pem, key, free_addresses, description, why)) {
      start_threads();
      return true;
    }
    error += (error.empty() ? "" : "; ") + e.address + ":" + std::to_string(e.port) + ": " + why;
  }
  if (node.endpoints.empty()) error = "the node has no data-plane endpoint";
  return false;
}

bool Link::open_at(const Endpoint& e, const NodeTicket& node, const std::string& ca_pem,
                   const transport::Secret& key, const std::vector<uint64_t>& free_addresses,
                   std::string& description, std::string& error) {
  int fd = transport::connect_tcp(e.address, e.port, kConnectMs, error);
  if (fd < 0) return false;
  wire::Preamble p{{}, (uint32_t)wire::Purpose::open, (uint32_t)node.ticket.size()};
  std::memcpy(p.magic, wire::kMagic, sizeof p.magic);
  std::string hello((const char*)&p, sizeof p);
  hello += node.ticket;
  Tls first;
  if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != (ssize_t)hello.size()) {
    error = "the connection broke";
    ::close(fd);
    return false;
  }
  if (!Tls::connect_launcher(fd, ca_pem, node.node_id, key, kHandshakeMs, first, error)) {
    error += " (a node answers nothing to a ticket that is expired, released or for another node)";
    return false;
  }
  if (!first.export_key(wire::kExporterLabel, session_key_)) {
    error = transport::openssl_error();
    return false;
  }
  endpoint_ = e;
  return open_session(first, free_addresses, description, error);
}

// The request and, when no node of this machine can answer it, behind it the first message to the
// session server.
bool Link::open_session(Tls& launcher, const std::vector<uint64_t>& free_addresses,
                        std::string& description, std::string& error) {
  wire::OpenRequest request{wire::kProtocolVersion, (uint32_t)getpid(), {}, {}, {}};
  copy_program_name(request.program, sizeof request.program);
  std::copy_n(free_addresses.begin(), std::min<size_t>(free_addresses.size(), wire::kArenaSlots),
              request.free_addresses);
  transport::MeetingName name{};
  int meeting = wants_shared_memory() && transport::same_machine(launcher.fd())
                    ? transport::listen_for_node(name)
                    : -1;
  std::memcpy(request.meeting, name.data(), name.size());
  bool opened = launcher.write_all(&request, sizeof request, kOpenMs);
  Tls next = Tls::prepare_with_key(launcher.fd(), transport::Role::client, session_key_);
  int file = -1;
  wire::OpenReply reply;
  opened = opened && (meeting >= 0 || next.say_hello());
  if (meeting >= 0)
    shared_ = transport::SharedMemory::create(file);
  else
    ring_ = std::make_unique<transport::Ring>();  // while the node works
  opened = opened && read_reply(launcher, reply, description, error);
  bool met =
      opened && reply.shared && shared_ && transport::share_with_node(meeting, session_key_, file);
  if (!met) shared_ = nullptr;
  if (meeting >= 0) ::close(meeting);
  if (file >= 0) ::close(file);
  if (!opened || (reply.shared && !met)) {
    next.release_fd();
    if (error.empty()) error = "the launcher did not open a session";
    return false;
  }
  std::memcpy(session_id_, reply.session, sizeof session_id_);
  waits_ += 3;  // TCP; the launcher's TLS; its answer, and with it the devices and the session
                // server's part of the next step
  socket_ = launcher.release_fd();
  if (shared_) {
    records_ = &shared_->records();
    next.release_fd();
    return true;
  }
  if (meeting >= 0) waits_ += 1;
  if (!ring_) ring_ = std::make_unique<transport::Ring>();
  records_ = ring_.get();
  tls_ = std::move(next);
  return tls_.finish_with_key(kHandshakeMs, error);
}

bool Link::read_reply(Tls& launcher, wire::OpenReply& reply, std::string& description,
                      std::string& error) {
  if (!launcher.read_all(&reply, sizeof reply, kOpenMs)) return false;
  reply.message[sizeof reply.message - 1] = 0;
  if (reply.status) {
    error = reply.message;
    return false;
  }
  if (reply.description_bytes > wire::kMaxDescriptionBytes) return false;
  description.resize(reply.description_bytes);
  return launcher.read_all(description.data(), description.size(), kOpenMs);
}

// ---- the thread of the link ----
bool Link::send_some() {
  if (!sending_bytes_) {
    sending_ = ring_->readable(64 << 10, sending_bytes_);
    sent_ = 0;
  }
  if (!sending_bytes_) return false;
  ssize_t n = tls_.write_some(sending_ + sent_, sending_bytes_ - sent_);
  if (n < 0) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the connection to the node broke");
    return false;
  }
  sent_ += (uint64_t)n;
  if (sent_ == sending_bytes_) {
    ring_->consume(sending_bytes_);
    sending_bytes_ = 0;
  }
  return n > 0;
}

bool Link::receive_some() {
  uint8_t record[transport::kTlsRecordBytes];
  ssize_t n = tls_.read_some(record, sizeof record);
  if (n > 0) inbox_.insert(inbox_.end(), record, record + n);
  if (n < 0) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the session server on the node ended");
    return false;
  }
  if (n > 0) parse_frames();
  return n > 0;
}

void Link::run() {
  int idle = 0;
  while (!error()) {
    bool moved = send_some();
    moved = receive_some() || moved;
    if (moved) {
      idle = 0;
      continue;
    }
    if (++idle < kIdleRounds) {
      if (idle > 100) std::this_thread::yield();
      continue;
    }
    if (!sending_bytes_ && !ring_->park()) {
      idle = 0;
      continue;
    }
    pollfd p[2] = {{tls_.fd(), (short)(POLLIN | (sending_bytes_ ? POLLOUT : 0)), 0},
                   {ring_->wake_fd(), POLLIN, 0}};
    poll(p, 2, 10'000);
    if (p[1].revents) ring_->drain_wake();
    ring_->unpark();
    idle = 0;
  }
  tls_.close();
}

void Link::announce() {
  epoch_.fetch_add(1);
  if (sleepers_.load()) futex(&epoch_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
}

void Link::fail(CUresult error, const std::string& why) {
  uint32_t none = 0;
  if (error_.compare_exchange_strong(none, error) && !why.empty() && !leaving_)
    std::fprintf(stderr, "busbar: node %s: %s\n", node_id_.c_str(), why.c_str());
  if (error == CUDA_ERROR_DEVICE_UNAVAILABLE) records_->close();
  announce();
}

// ---- callers ----
CUresult Link::wait(const std::function<bool()>& done) {
  if (shared_ && help(done)) return error();
  for (int i = 0; i < (shared_ ? kHelpedRounds : kSpinRounds); ++i) {
    if (done()) return error();
    if (error()) return error();
    if (i > 200) std::this_thread::yield();
  }
  if (shared_) shared_->wait(true);
  while (!done() && !error()) {
    uint32_t epoch = epoch_.load();
    glance();
    sleepers_.fetch_add(1);
    if (!done() && !error()) {
      timespec patience{1, 0};
      futex(&epoch_, FUTEX_WAIT_PRIVATE, epoch, &patience);
    }
    sleepers_.fetch_sub(1);
  }
  if (shared_) shared_->wait(false);
  return error();
}

Answer Link::ask(uint64_t id, const uint8_t* record, uint32_t bytes) {
  Answer answer;
  std::atomic_ref<uint32_t> status(answer.status);
  answer.status = UINT32_MAX;
  {
    std::lock_guard lock(mutex_);
    answers_[id] = &answer;
  }
  note_wait();
  if (submit(record, bytes))
    wait([&] { return status.load(std::memory_order_acquire) != UINT32_MAX; });
  std::lock_guard lock(mutex_);
  answers_.erase(id);
  if (answer.status == UINT32_MAX)
    answer.status = error() ? error() : CUDA_ERROR_DEVICE_UNAVAILABLE;
  return answer;
}

void Link::watch(uint32_t stream, Progress* progress) {
  std::lock_guard lock(mutex_);
  if (progress)
    progress_[stream] = progress;
  else
    progress_.erase(stream);
}

// The server closes, then the threads end: one second at the most. They must not meet what the
// program's exit handlers leave of OpenSSL.
void Link::goodbye() {
  leaving_ = true;
  wire::Encoder<> e(wire::Op::goodbye, 0);
  if (!error()) submit(e.finish(), e.size());
  timespec pause{0, 1'000'000};
  for (int i = 0; i < 1000 && (!error() || threads_); ++i) nanosleep(&pause, nullptr);
}

}  // namespace busbar::client
