#include "null_driver/socket_attacks.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace {
constexpr int kMostDescriptors = 256, kPollMs = 10, kKeepMs = 3000;

socklen_t address_of(const std::string& path, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, path.c_str(), sizeof a.sun_path - 1);
  if (path[0] == '@') a.sun_path[0] = 0;  // an abstract name
  return (socklen_t)(offsetof(sockaddr_un, sun_path) + path.size());
}

// Returns a socket, or -1.
int bind_at(const std::string& path, int type) {
  sockaddr_un a;
  socklen_t length = address_of(path, a);
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (sockaddr*)&a, length) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool is_tcp(int fd) {
  int domain = 0;
  socklen_t n = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_INET;
}

// Returns the client's connection, or -1. The session server does not notice when it ends.
int take_tcp() {
  int fd = 0, pair[2];
  while (fd < kMostDescriptors && !is_tcp(fd)) ++fd;
  int taken = dup(fd);
  return taken < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ||
                 dup2(pair[0], fd) < 0
             ? -1
             : taken;
}
}  // namespace

int listen_at(const std::string& path) {
  int fd = bind_at(path, SOCK_STREAM);
  return fd < 0 || listen(fd, 1) ? errno : 0;  // the socket stays
}

int flood_with_sockets(const std::string& text) {
  std::istringstream words(text);
  std::string path;
  int count = 0;
  words >> path >> count;
  for (int i = 0; i < count; ++i) {
    int fd = bind_at(path + "." + std::to_string(i), SOCK_DGRAM);
    if (fd < 0) return errno;
    close(fd);
  }
  return 0;
}

int take_name(const std::string& text) {
  std::istringstream words(text);
  std::string from, to;
  words >> from >> to;
  return rename(from.c_str(), to.c_str()) ? errno : 0;
}

int send_to(const std::string& path) {
  sockaddr_un a;
  socklen_t length = address_of(path, a);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int result =
      sendto(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (sockaddr*)&a, length) < 0 ? errno : 0;
  close(fd);
  return result;
}

int occupy_port(const std::string& port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)std::stoi(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = take_tcp(), no = 0;
  if (fd < 0) return errno;
  shutdown(fd, SHUT_RDWR);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &no, sizeof no);
  int result = EINVAL;
  for (int ms = 0; ms < kKeepMs && result == EINVAL; ms += kPollMs) {
    result = bind(fd, (sockaddr*)&a, sizeof a) ? errno : 0;
    if (result == EINVAL) poll(nullptr, 0, kPollMs);  // the connection has not ended yet
  }
  std::fprintf(stderr, "occupy: %d\n", result);
  if (!result) poll(nullptr, 0, kKeepMs);
  return result;
}
