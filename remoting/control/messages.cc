#include "control/messages.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace busbar::control {

static bool send_all(int fd, const void* p, size_t n) {
  auto* at = (const char*)p;
  while (n) {
    ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

static bool receive_all(int fd, void* p, size_t n) {
  auto* at = (char*)p;
  while (n) {
    ssize_t k = recv(fd, at, n, 0);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool send_message(int fd, Kind kind, const void* body, uint32_t bytes, int attached) {
  Header h{bytes, (uint32_t)kind};
  iovec io{&h, sizeof h};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  if (attached >= 0) {
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &attached, sizeof attached);
  }
  ssize_t n;
  do n = sendmsg(fd, &m, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof h && send_all(fd, body, bytes);
}

bool receive_message(int fd, Header& h, void* body, uint32_t room, int* attached) {
  iovec io{&h, sizeof h};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  m.msg_control = space;
  m.msg_controllen = sizeof space;
  ssize_t n;
  do n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  int got = -1;
  if (n > 0)
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        std::memcpy(&got, CMSG_DATA(c), sizeof got);
  bool ok = n > 0 &&
            (n == (ssize_t)sizeof h || receive_all(fd, (char*)&h + n, sizeof h - (size_t)n)) &&
            h.body_bytes <= room && receive_all(fd, body, h.body_bytes);
  if (attached && ok)
    *attached = got;
  else if (got >= 0)
    ::close(got);
  return ok;
}

static bool address_of(const char* path, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof a.sun_path) return false;
  std::strcpy(a.sun_path, path);
  return true;
}

int listen_at(const char* path) {
  sockaddr_un a;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(path);
  mode_t before = umask(0177);
  bool ok = fd >= 0 && address_of(path, a) && bind(fd, (sockaddr*)&a, sizeof a) == 0 &&
            listen(fd, 64) == 0;
  umask(before);
  if (ok) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

int connect_to(const char* path) {
  sockaddr_un a;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && address_of(path, a) && connect(fd, (sockaddr*)&a, sizeof a) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace busbar::control
