#include "launcher/reception.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/client_hello.h"
#include "launcher/first_bytes.h"
#include "transport/clock.h"
#include "transport/tcp.h"

namespace busbar::launcher {

namespace {
constexpr size_t kMaxPending = 1024, kMaxPendingByNetwork = 128;
constexpr int kAcceptsPerRound = 64;
constexpr int kPauseMicroseconds = 10'000;
constexpr size_t kNetworkBytesV6 = 8;  // a client commonly has a network of this size

std::string name_of(const sockaddr_storage& a, bool with_port) {
  char host[64] = "?", port[16] = "?";
  getnameinfo((const sockaddr*)&a, sizeof a, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return with_port ? std::string(host) + ":" + port : host;
}

std::string network_of(const sockaddr_storage& a) {
  const auto& v6 = (const sockaddr_in6&)a;
  if (a.ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return name_of(a, false);
  return {(const char*)&v6.sin6_addr, kNetworkBytesV6};
}
}  // namespace

Reception::Reception(int listener, int patience_ms, Receiver receiver)
    : listener_(listener),
      patience_ms_(patience_ms),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      receiver_(std::move(receiver)),
      pending_(kMaxPending, kMaxPendingByNetwork) {
  epoll_event event{EPOLLIN, {.fd = listener}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, listener, &event);
}

void Reception::run() {
  epoll_event events[kAcceptsPerRound];
  for (;;) {
    int timeout_ms = pending_.next_deadline_ms(transport::now_ms());
    int count = epoll_wait(epoll_, events, kAcceptsPerRound, timeout_ms);
    for (int i = 0; i < count; ++i) {
      int fd = events[i].data.fd;
      if (fd == listener_)
        accept_connections();
      else if (pending_.find(fd))  // it may have been evicted in this round
        read(fd, events[i].events & EPOLLRDHUP);
    }
    for (int fd : pending_.take_expired(transport::now_ms())) ::close(fd);
  }
}

void Reception::accept_connections() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      add(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (int oldest = pending_.take_oldest(); oldest >= 0) ::close(oldest);
      usleep(kPauseMicroseconds);
      return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
  }
}

void Reception::add(int fd) {
  sockaddr_storage address{};
  socklen_t n = sizeof address;
  epoll_event event{EPOLLIN | EPOLLRDHUP, {.fd = fd}};
  if (getpeername(fd, (sockaddr*)&address, &n) || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event)) {
    ::close(fd);
    return;
  }
  transport::tune_tcp(fd);
  PendingConnection connection{
      fd, network_of(address), name_of(address, true), transport::now_ms() + patience_ms_, {}};
  for (int evicted : pending_.add(std::move(connection))) ::close(evicted);
}

// Reads no byte beyond the first bytes: the rest belongs to TLS.
void Reception::read(int fd, bool has_ended) {
  std::vector<uint8_t>& bytes = pending_.find(fd)->bytes;
  ssize_t missing;
  while ((missing = missing_bytes(bytes)) > 0) {
    size_t before = bytes.size();
    bytes.resize(before + (size_t)missing);
    ssize_t n = recv(fd, bytes.data() + before, (size_t)missing, 0);
    bytes.resize(before + (size_t)std::max<ssize_t>(n, 0));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return close_connection(fd);
  }
  if (missing < 0) return close_connection(fd);
  if (is_opening(bytes)) {
    ClientHello hello = await_client_hello(fd, has_ended);
    if (hello == ClientHello::missing) return;
    if (hello == ClientHello::invalid) return close_connection(fd);
  }
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  receiver_(pending_.take(fd));
}

void Reception::close_connection(int fd) {
  pending_.take(fd);
  ::close(fd);
}

}  // namespace busbar::launcher
