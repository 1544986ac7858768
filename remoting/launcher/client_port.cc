#include "launcher/client_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "control/hex.h"
#include "launcher/first_bytes.h"
#include "launcher/reception.h"
#include "launcher/refusal_log.h"
#include "launcher/work_queue.h"
#include "transport/clock.h"
#include "transport/opening_key.h"

namespace busbar::launcher {

namespace {
constexpr int kHandshakeMs = 5000;  // from the ticket to the request inside TLS
constexpr WorkQueue::Limits kWorkLimits{256, 32, 256};
constexpr int kPortAttempts = 100;
constexpr int kBacklog = 1024;

void log_refusal(const std::string& client, const std::string& reason) {
  static RefusalLog lines;
  lines.add(client, reason, transport::now_ms());
}

int milliseconds_until(int64_t deadline_ms) {
  return (int)std::max<int64_t>(0, deadline_ms - transport::now_ms());
}

// A connection whose ticket is valid.
struct Opening {
  int fd;
  std::string client;
  std::vector<uint8_t> ticket_bytes;
  Ticket ticket;
  Grant grant;
};

// Performs the TLS handshake, which succeeds only with a client that holds the key of its ticket.
// Takes over the socket. Returns the reason of a failure; empty on success.
std::string authenticate(const Opening& o, int64_t deadline_ms, transport::Tls& tls) {
  transport::Secret own, client, key;
  std::memcpy(own.data(), o.ticket.node_secret, own.size());
  std::memcpy(client.data(), o.ticket.body.client_key, client.size());
  if (!transport::derive_opening_key(own, client, o.ticket_bytes.data(), o.ticket_bytes.size(),
                                     key)) {
    close(o.fd);
    return "the client's key in the ticket is invalid";
  }
  std::string reason;
  if (transport::Tls::open_with_key(o.fd, transport::Role::server, key,
                                    milliseconds_until(deadline_ms), tls, reason,
                                    transport::Reading::exact))
    return "";
  return "the handshake failed: " + reason;
}

void open_session(const Opening& o, Sessions& sessions) {
  transport::Tls tls;
  int64_t deadline_ms = transport::now_ms() + kHandshakeMs;
  std::string reason = authenticate(o, deadline_ms, tls);
  if (!reason.empty()) return log_refusal(o.client, reason);
  wire::OpenRequest request;
  if (tls.read_all(&request, sizeof request, milliseconds_until(deadline_ms)) &&
      request.protocol == wire::kProtocolVersion)
    sessions.open(std::move(tls), o.ticket, o.grant, request, o.client);
  else
    log_refusal(o.client, "the client has another protocol version");
}

class ClientPort {
 public:
  ClientPort(Grants& grants, Sessions& sessions)
      : grants_(grants), sessions_(sessions), work_(kWorkLimits) {}

  // Serves a connection with complete first bytes. Sends no byte before they are valid.
  void receive(const PendingConnection& c) {
    auto first = read_first_bytes(c.bytes);
    bool taken = first && (first->purpose == wire::Purpose::open
                               ? receive_ticket(c, first->ticket, first->ticket_bytes)
                               : receive_bulk(c, first->bulk));
    if (!taken) close(c.fd);
  }

 private:
  bool receive_ticket(const PendingConnection& c, const uint8_t* ticket, size_t n) {
    std::string reason;
    auto opening = std::make_shared<Opening>(
        Opening{c.fd, c.client, std::vector<uint8_t>(ticket, ticket + n), {}, {}});
    if (!grants_.admit(ticket, n, opening->ticket, opening->grant, reason)) {
      log_refusal(c.client, reason);
      return false;
    }
    std::string tenant = control::hex(opening->grant.allocation.tenant, 16);
    return work_.submit(tenant, [this, opening] { open_session(*opening, sessions_); });
  }

  bool receive_bulk(const PendingConnection& c, const wire::BulkRequest& request) {
    if (!sessions_.admit_bulk(request)) {
      log_refusal(c.client, "the proof of the bulk connection is wrong");
      return false;
    }
    return work_.submit(control::hex(request.session, 16), [this, request, fd = c.fd] {
      sessions_.attach(request.session, fd);
      close(fd);
    });
  }

  Grants& grants_;
  Sessions& sessions_;
  WorkQueue work_;
};
}  // namespace

int listen_on_port(const std::string& address, int& port) {
  for (int attempt = 0; attempt < kPortAttempts; ++attempt, ++port) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list)) return -1;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok =
        fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, kBacklog) == 0;
    freeaddrinfo(list);
    if (ok) return fd;
    if (fd >= 0) close(fd);
  }
  return -1;
}

void serve_clients(int listener, Grants& grants, Sessions& sessions) {
  ClientPort port(grants, sessions);
  Reception(listener, [&port](const PendingConnection& c) { port.receive(c); }).run();
}

}  // namespace busbar::launcher
