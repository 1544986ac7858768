#include "transport/tcp.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/clock.h"

namespace busbar::transport {

void tune_tcp(int fd) {
  const struct {
    int level, name, value;
  } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
                 {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
                 {IPPROTO_TCP, TCP_KEEPCNT, 3},   {IPPROTO_TCP, TCP_USER_TIMEOUT, 105'000}};
  for (auto& o : options) setsockopt(fd, o.level, o.name, &o.value, sizeof o.value);
}

void reset_at_end(int fd, bool resets) {
  linger at_once{resets, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool is_all_received(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

int connect_tcp(const std::string& address, int port, int timeout_ms, std::string& error) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (int e = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list)) {
    error = gai_strerror(e);
    return -1;
  }
  int fd = -1;
  for (addrinfo* a = list; a && fd < 0; a = a->ai_next) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) continue;
    int failed = 0;
    socklen_t n = sizeof failed;
    if (::connect(s, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
      failed = errno;
    else if (!socket_ready(s, true, timeout_ms))
      failed = ETIMEDOUT;
    else
      getsockopt(s, SOL_SOCKET, SO_ERROR, &failed, &n);
    if (failed) {
      error = std::strerror(failed);
      ::close(s);
    } else
      fd = s;
  }
  freeaddrinfo(list);
  if (fd >= 0) tune_tcp(fd);
  return fd;
}

bool is_local_connection(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t n = sizeof here, m = sizeof there;
  if (getsockname(fd, (sockaddr*)&here, &n) || getpeername(fd, (sockaddr*)&there, &m) ||
      here.ss_family != there.ss_family)
    return false;
  if (here.ss_family == AF_INET)
    return ((sockaddr_in&)here).sin_addr.s_addr == ((sockaddr_in&)there).sin_addr.s_addr;
  return here.ss_family == AF_INET6 &&
         !std::memcmp(&((sockaddr_in6&)here).sin6_addr, &((sockaddr_in6&)there).sin6_addr,
                      sizeof(in6_addr));
}

bool socket_ready(int fd, bool writing, int timeout_ms) {
  pollfd p{fd, (short)(writing ? POLLOUT : POLLIN), 0};
  int64_t end = now_ms() + timeout_ms;
  for (;;) {
    int left = (int)std::max<int64_t>(0, end - now_ms());
    int n = poll(&p, 1, left);
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

}  // namespace busbar::transport
