#include "server/control_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "control/messages.h"
#include "control/offers.h"
#include "server/ipc.h"
#include "server/session_end.h"
#include "transport/clock.h"
#include "transport/session_keys.h"

namespace busbar::server {

namespace {
constexpr int kHandshakeMs = 5000;
constexpr int kMessageMs = 1000;   // another session may connect and stay silent
constexpr int kMaxHandshakes = 4;  // of bulk connections at a time

std::atomic<int> g_handshakes{0};

using control::Kind;

int64_t message_deadline() {
  return transport::now_ms() + kMessageMs;
}

bool send_status(const ControlServer& c, int fd) {
  Session& s = c.session;
  control::SessionStatus status{s.link.bytes_in(), s.link.bytes_out(), s.launches};
  return control::send_message(fd, Kind::ok, &status, sizeof status, -1, message_deadline());
}

// Reads a bulk connection on a thread of its own. `counter` is that of its wire::BulkRequest.
void attach_bulk(const ControlServer& c, int connection, uint64_t counter) {
  if (g_handshakes.fetch_add(1) >= kMaxHandshakes) {
    --g_handshakes;
    close(connection);
    return;
  }
  std::thread([c, connection, counter] {
    transport::Tls tls;
    std::string error;
    transport::Secret key = transport::derive_key(c.key, transport::kBulkPurpose);
    bool opened = transport::Tls::open_with_key(connection, transport::Role::server, key,
                                                kHandshakeMs, tls, error);
    --g_handshakes;
    if (opened) c.session.bulk.receive(counter, std::move(tls));
    c.executor.wake();
  }).detach();
}

void share(const ControlServer& c, int fd, const wire::IpcToken& token) {
  ucred peer{};
  uint64_t bytes = 0;
  int shared = control::peer_of(fd, peer) ? export_shared(c.session, token, peer.pid, bytes) : -1;
  control::send_message(fd, shared < 0 ? Kind::refused : Kind::ok, &bytes, sizeof bytes, shared,
                        message_deadline());
  if (shared >= 0) close(shared);
}

// The sizes of the partitions may have changed.
void note_sizes(const ControlServer& c) {
  c.session.sizes_changed = true;
  c.executor.wake();
}

// Serves one connection until it ends or breaks the protocol.
void serve_requests(const ControlServer& c, int fd) {
  control::EndReason reason{};
  control::Header h;
  int attached = -1;
  while (control::receive_message(fd, h, &reason, sizeof reason, &attached, message_deadline())) {
    if (h.kind == (uint32_t)Kind::status) {
      if (!send_status(c, fd)) break;
    } else if (h.kind == (uint32_t)Kind::attach && attached >= 0) {
      uint64_t counter = 0;
      std::memcpy(&counter, &reason, sizeof counter);
      attach_bulk(c, attached, counter);
      attached = -1;
    } else if (h.kind == (uint32_t)Kind::account && attached >= 0) {
      c.session.account.connect(attached);
      attached = -1;
      note_sizes(c);
    } else if (h.kind == (uint32_t)Kind::turns && attached >= 0) {
      c.session.turns->connect(attached);
      attached = -1;
    } else if (h.kind == (uint32_t)Kind::resized) {
      note_sizes(c);
    } else if (h.kind == (uint32_t)Kind::memory_wanted) {
      c.session.memory_wanted = true;
      note_sizes(c);
    } else if (h.kind == (uint32_t)Kind::suspend_memory) {
      control::SuspendRequest request;
      std::memcpy(&request, &reason, sizeof request);
      c.executor.suspend(request.wait_ms, request.host_bytes);
    } else if (h.kind == (uint32_t)Kind::resume_memory) {
      c.executor.resume();
    } else if (h.kind == (uint32_t)Kind::end) {
      reason.text[sizeof reason.text - 1] = 0;
      end_session(c.session.link, CUDA_ERROR_DEVICE_UNAVAILABLE,
                  {control::SessionEnd::told, reason.text});
    }
    if (attached >= 0) close(attached);
  }
}

// Serves one request of another session of the allocation.
void serve_offer(const ControlServer& c, int fd) {
  control::Header h;
  wire::IpcToken token;
  if (control::receive_message(fd, h, &token, sizeof token, nullptr, message_deadline()) &&
      h.kind == (uint32_t)Kind::share && h.body_bytes == sizeof token)
    share(c, fd, token);
}

// Serves the connections that `next` returns on a thread of its own.
void serve(const ControlServer& c, int (*next)(const ControlServer&),
           void (*serve_connection)(const ControlServer&, int)) {
  std::thread([=] {
    for (;;) {
      int fd = next(c);
      ucred peer{};
      if (fd < 0) continue;
      if (control::peer_of(fd, peer) && (peer.uid == c.launcher || peer.uid == geteuid()))
        serve_connection(c, fd);
      close(fd);
    }
  }).detach();
}

int accept_connection(const ControlServer& c) {
  return accept4(c.listener, nullptr, nullptr, SOCK_CLOEXEC);
}

int take_offer(const ControlServer& c) {
  return control::take_offer(c.offers);
}
}  // namespace

void start_control_server(const ControlServer& server) {
  serve(server, accept_connection, serve_requests);
  serve(server, take_offer, serve_offer);
}

}  // namespace busbar::server
