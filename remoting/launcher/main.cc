// The launcher: owns the node's data-plane port, checks tickets, starts session servers. It
// outlives the agent.
#include <arpa/inet.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "launcher/sessions.h"

namespace {

using namespace busbar;
using namespace busbar::launcher;

constexpr int kPreambleMs = 5000, kHandshakeMs = 10'000, kMaxConnections = 256, kWatchMs = 500;
std::atomic<int> g_connections{0};

bool parse(int argc, char** argv, Settings& s, std::string& agent_socket) {
  static const option options[] = {{"runtime", 1, nullptr, 'r'},
                                   {"agent-socket", 1, nullptr, 'a'},
                                   {"session-program", 1, nullptr, 's'},
                                   {"driver", 1, nullptr, 'd'},
                                   {"certificate", 1, nullptr, 'c'},
                                   {"key", 1, nullptr, 'k'},
                                   {"listen", 1, nullptr, 'l'},
                                   {"port", 1, nullptr, 'p'},
                                   {}};
  for (int o; (o = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (o) {
      case 'r': s.runtime = optarg; break;
      case 'a': agent_socket = optarg; break;
      case 's': s.session_program = optarg; break;
      case 'd': s.driver = optarg; break;
      case 'c': s.certificate = optarg; break;
      case 'k': s.key = optarg; break;
      case 'l': s.listen_address = optarg; break;
      case 'p': s.port = std::atoi(optarg); break;
      default: return false;
    }
  return !s.runtime.empty() && !agent_socket.empty() && !s.session_program.empty() &&
         !s.driver.empty();
}

// The wanted port, or the next free one of a hundred.
int listen_tcp(const std::string& address, int& port) {
  for (int tries = 0; tries < 100; ++tries, ++port) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list)) return -1;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 256) == 0;
    freeaddrinfo(list);
    if (ok) return fd;
    if (fd >= 0) close(fd);
  }
  return -1;
}

bool read_exactly(int fd, void* p, size_t n, int timeout_ms) {
  auto* at = (char*)p;
  while (n) {
    if (!transport::socket_ready(fd, false, timeout_ms)) return false;
    ssize_t k = recv(fd, at, n, 0);
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

std::string peer_name(int fd) {
  sockaddr_storage a;
  socklen_t n = sizeof a;
  char host[64] = "?", port[16] = "?";
  if (getpeername(fd, (sockaddr*)&a, &n) == 0)
    getnameinfo((sockaddr*)&a, n, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + ":" + port;
}

// Certificates are renewed daily: the files are read again when they changed.
SSL_CTX* current_context(const Settings& settings, std::string& why) {
  static std::mutex mutex;
  static SSL_CTX* kept = nullptr;
  static timespec read_at[2] = {};
  struct stat now[2] = {};
  std::lock_guard lock(mutex);
  if (stat(settings.certificate.c_str(), &now[0]) || stat(settings.key.c_str(), &now[1])) {
    why = "the certificate's files are missing";
    return nullptr;
  }
  auto same = [&](int i) {
    return now[i].st_mtim.tv_sec == read_at[i].tv_sec &&
           now[i].st_mtim.tv_nsec == read_at[i].tv_nsec;
  };
  if (!kept || !same(0) || !same(1)) {
    if (kept) SSL_CTX_free(kept);
    kept = transport::launcher_context(settings.certificate, settings.key, why);
    for (int i = 0; i < 2; ++i) read_at[i] = now[i].st_mtim;
  }
  if (kept) SSL_CTX_up_ref(kept);
  return kept;
}

// One client. Until its ticket proves right, it gets no byte back.
void serve_client(int fd, const Settings& settings, Grants& grants, Sessions& sessions) {
  std::string who = peer_name(fd), why;
  wire::Preamble p;
  uint8_t body[wire::kMaxTicketBytes];
  if (!read_exactly(fd, &p, sizeof p, kPreambleMs) ||
      std::memcmp(p.magic, wire::kMagic, sizeof p.magic) || p.bytes > sizeof body ||
      !read_exactly(fd, body, p.bytes, kPreambleMs)) {
    close(fd);
    return;
  }
  if (p.purpose == (uint32_t)wire::Purpose::bulk && p.bytes == 16) {
    sessions.attach(body, fd);
    close(fd);
    return;
  }
  Ticket ticket;
  Grant grant;
  if (p.purpose != (uint32_t)wire::Purpose::open ||
      !grants.admit(body, p.bytes, ticket, grant, why)) {
    std::fprintf(stderr, "%s: refused: %s\n", who.c_str(), why.c_str());
    close(fd);
    return;
  }
  transport::Secret peer;
  transport::Tls tls;
  SSL_CTX* context = current_context(settings, why);
  if (!context || !transport::Tls::accept_client(fd, context, kHandshakeMs, tls, why))
    std::fprintf(stderr, "%s: handshake: %s\n", who.c_str(), why.c_str());
  else if (!tls.peer_public_key(peer) ||
           std::memcmp(peer.data(), ticket.body.client_key, peer.size()))
    std::fprintf(stderr, "%s: refused: the client does not hold the ticket's key\n", who.c_str());
  else {
    wire::OpenRequest request;
    if (tls.read_all(&request, sizeof request, kHandshakeMs) &&
        request.protocol == wire::kProtocolVersion)
      sessions.open(std::move(tls), ticket, grant, request, who);
    else
      std::fprintf(stderr, "%s: refused: another protocol version\n", who.c_str());
  }
  if (context)
    SSL_CTX_free(context);
  else
    close(fd);
}

void accept_clients(int listener, const Settings& settings, Grants& grants, Sessions& sessions) {
  for (;;) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::yield();
      continue;
    }
    if (++g_connections > kMaxConnections) {
      --g_connections;
      close(fd);
      continue;
    }
    transport::tune_tcp(fd);
    std::thread([=, &settings, &grants, &sessions] {
      serve_client(fd, settings, grants, sessions);
      --g_connections;
    }).detach();
  }
}

void serve_agent(int listener, Grants& grants, Sessions& sessions, int port) {
  std::vector<uint8_t> body(control::kMaxMessageBytes);
  for (;;) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    timeval patience{10, 0};  // an agent that was stopped must not keep the next one out
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    control::Header h;
    while (control::receive_message(fd, h, body.data(), (uint32_t)body.size())) {
      if (h.kind == (uint32_t)control::Kind::grants) {
        bool ok = grants.replace(body.data(), h.bytes);
        if (ok) sessions.watch();
        if (!control::send_message(fd, ok ? control::Kind::ok : control::Kind::refused, nullptr, 0))
          break;
      } else if (h.kind == (uint32_t)control::Kind::sessions) {
        auto records = sessions.list();
        control::SessionList head{grants.generation(), (uint32_t)records.size(), (uint32_t)port};
        std::vector<uint8_t> out(sizeof head + records.size() * sizeof records[0]);
        std::memcpy(out.data(), &head, sizeof head);
        if (!records.empty())
          std::memcpy(out.data() + sizeof head, records.data(), records.size() * sizeof records[0]);
        if (!control::send_message(fd, control::Kind::session_list, out.data(),
                                   (uint32_t)out.size()))
          break;
      } else
        break;
    }
    close(fd);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::printf("busbar-launcher, protocol %u\n", wire::kProtocolVersion);
    return 0;
  }
  Settings settings;
  std::string agent_socket;
  if (!parse(argc, argv, settings, agent_socket)) {
    std::fprintf(
        stderr,
        "usage: busbar-launcher --runtime DIR --agent-socket PATH --session-program PATH --driver LIBRARY --certificate PEM --key PEM [--listen ADDRESS] [--port N]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  int signals = signalfd(-1, &stop, SFD_CLOEXEC);
  static Grants grants(settings.runtime);
  static Sessions sessions(settings, grants);
  grants.load();
  // The failpoint lets a test show that it would notice a launcher that forgets its sessions.
  unsigned adopted = std::getenv("BUSBAR_FAILPOINT_NO_ADOPTION") ? 0 : sessions.adopt();
  int listener = listen_tcp(settings.listen_address, settings.port),
      agent = control::listen_at(agent_socket.c_str());
  if (listener < 0 || agent < 0) {
    std::fprintf(stderr, "cannot listen on %s or %s:%d\n", agent_socket.c_str(),
                 settings.listen_address.c_str(), settings.port);
    return 1;
  }
  std::fprintf(stderr, "launcher listens on %s:%d, %u sessions adopted\n",
               settings.listen_address.c_str(), settings.port, adopted);
  std::thread([&] { sessions.keep_spare(); }).detach();
  std::thread([&] { accept_clients(listener, settings, grants, sessions); }).detach();
  std::thread([&] { serve_agent(agent, grants, sessions, settings.port); }).detach();
  for (;;) {
    pollfd p{signals, POLLIN, 0};
    if (poll(&p, 1, kWatchMs) > 0) {
      signalfd_siginfo info;
      (void)!read(signals, &info, sizeof info);
      if (info.ssi_signo == SIGINT)
        sessions.end_all(
            "the node was stopped");  // SIGTERM leaves the sessions to the next launcher
      std::_Exit(0);
    }
    sessions.watch();
  }
}
