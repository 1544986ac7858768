#include "launcher/client_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "control/failpoints.h"
#include "control/hex.h"
#include "launcher/first_bytes.h"
#include "launcher/network_budgets.h"
#include "launcher/openings.h"
#include "launcher/reception.h"
#include "launcher/refusal_log.h"
#include "launcher/work_queue.h"
#include "transport/clock.h"

namespace busbar::launcher {

namespace {
constexpr int kPatienceMs = 5000;
constexpr size_t kMaxOpenings = 1024, kMaxOpeningsByNetwork = 256;
constexpr WorkQueue::Limits kWorkLimits{256, 32, 256};
constexpr Rate kRefusedTickets{200, 20};  // a ticket costs a check of its signature
constexpr char kTooMany[] = "too many programs of the tenant wait for a session";
constexpr int kPortAttempts = 100;
constexpr int kBacklog = 1024;

// Time for preamble, ticket and the first record together, and from then on to the request inside
// TLS. Failpoint: with a long time tests prove that no client waits for silent connections.
int patience_ms() {
  static const char* lengthened = control::failpoint("PATIENCE_MS");
  return lengthened ? std::atoi(lengthened) : kPatienceMs;
}

RefusalLog& refusal_log() {
  static RefusalLog lines;
  return lines;
}

// Of a PendingConnection or an Opening.
template <typename Connection>
void log_refusal(const Connection& c, const std::string& reason) {
  refusal_log().add(c.network, c.client, reason, transport::now_ms());
}

class ClientPort {
 public:
  ClientPort(Grants& grants, Sessions& sessions)
      : grants_(grants),
        sessions_(sessions),
        work_(kWorkLimits),
        openings_(
            kMaxOpenings, kMaxOpeningsByNetwork,
            [this](const std::shared_ptr<Opening>& o) { open_session(o); }, log_refusal<Opening>) {}

  // Serves a connection with complete first bytes. Sends no byte before they are valid.
  void receive(const PendingConnection& c) {
    auto first = read_first_bytes(c.bytes);
    bool taken = first && (first->purpose == wire::Purpose::open
                               ? receive_ticket(c, first->ticket, first->ticket_bytes)
                               : receive_bulk(c, first->bulk));
    if (!taken) close(c.fd);
  }

  [[noreturn]] void serve_openings() { openings_.run(); }

 private:
  bool receive_ticket(const PendingConnection& c, const uint8_t* ticket, size_t n) {
    std::string reason;
    Ticket claims;
    control::Allocation grant;
    int64_t now_ms = transport::now_ms();
    if (refused_tickets_.is_empty(c.network, now_ms)) {
      log_refusal(c, "its network sent too many invalid tickets");
      return false;
    }
    if (!grants_.admit(ticket, n, claims, grant, reason)) {
      refused_tickets_.take(c.network, now_ms);
      log_refusal(c, reason);
      return false;
    }
    auto opening = std::make_shared<Opening>(c, claims, grant);
    if (opening->begin(ticket, n))
      openings_.add(opening, now_ms + patience_ms());
    else
      log_refusal(c, "the client's key in the ticket is invalid");
    return true;
  }

  // The client has proved its key and sent its request.
  void open_session(const std::shared_ptr<Opening>& o) {
    if (o->request.protocol != wire::kProtocolVersion)
      return log_refusal(*o, "the client has another protocol version");
    std::string tenant = control::hex(o->grant.tenant, 16);
    bool taken = work_.submit(tenant, [this, o] {
      sessions_.open(std::move(o->tls), o->ticket, o->grant, o->request, o->client);
    });
    if (taken) return;
    Sessions::turn_away(o->tls, kTooMany);
    log_refusal(*o, kTooMany);
  }

  bool receive_bulk(const PendingConnection& c, const wire::BulkRequest& request) {
    if (!sessions_.admit_bulk(request)) {
      log_refusal(c, "the proof of the bulk connection is wrong");
      return false;
    }
    return work_.submit(control::hex(request.session, 16), [this, request, fd = c.fd] {
      sessions_.attach(request, fd);
      close(fd);
    });
  }

  Grants& grants_;
  Sessions& sessions_;
  NetworkBudgets refused_tickets_{kRefusedTickets};  // of the thread of receive()
  WorkQueue work_;
  Openings openings_;
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
  std::thread([&port] { port.serve_openings(); }).detach();
  Reception(listener, patience_ms(), [&port](const PendingConnection& c) {
    port.receive(c);
  }).run();
}

}  // namespace busbar::launcher
