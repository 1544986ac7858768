#include "control/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "transport/clock.h"

namespace busbar::control {

namespace {
constexpr int kBacklog = 64;

// Waits until a call on the socket can succeed. False at the deadline.
bool wait_until_ready(int fd, short events, int64_t deadline_ms) {
  pollfd p{fd, events, 0};
  int64_t left_ms = deadline_ms - transport::now_ms();
  return left_ms > 0 && (poll(&p, 1, (int)left_ms) > 0 || errno == EINTR);
}

// Repeats a system call, which takes flags, until it succeeds, fails or the deadline passes.
template <typename Call>
ssize_t call_until(int fd, short events, int64_t deadline_ms, Call call) {
  bool blocks = deadline_ms == kNoDeadline;
  for (;;) {
    ssize_t n = call(blocks ? 0 : MSG_DONTWAIT);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    if (blocks || errno != EAGAIN || !wait_until_ready(fd, events, deadline_ms)) return -1;
  }
}

bool send_all(int fd, const void* p, size_t n, int64_t deadline_ms) {
  auto* at = (const char*)p;
  while (n) {
    ssize_t k = call_until(fd, POLLOUT, deadline_ms,
                           [&](int flags) { return send(fd, at, n, flags | MSG_NOSIGNAL); });
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool receive_all(int fd, void* p, size_t n, int64_t deadline_ms) {
  auto* at = (char*)p;
  while (n) {
    ssize_t k =
        call_until(fd, POLLIN, deadline_ms, [&](int flags) { return recv(fd, at, n, flags); });
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}
}  // namespace

DescriptorMessage::DescriptorMessage(void* bytes, size_t n, size_t room) : msghdr{}, io_{bytes, n} {
  msg_iov = &io_;
  msg_iovlen = 1;
  if (!room) return;
  msg_control = descriptors_;
  msg_controllen = CMSG_LEN(room * sizeof(int));  // padding would be room for another one
}

DescriptorMessage::DescriptorMessage(const void* bytes, size_t n, std::span<const int> attached)
    : DescriptorMessage(const_cast<void*>(bytes), n, attached.size()) {
  if (attached.empty()) return;
  cmsghdr* c = CMSG_FIRSTHDR(this);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = msg_controllen;
  std::memcpy(CMSG_DATA(c), attached.data(), attached.size_bytes());
}

void DescriptorMessage::take(int* received) {
  cmsghdr* c = CMSG_FIRSTHDR(this);
  if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
    std::memcpy(received, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

bool send_message(int fd, Kind kind, const void* body, uint32_t bytes, int attached,
                  int64_t deadline_ms) {
  Header h{bytes, (uint32_t)kind};
  DescriptorMessage m(&h, sizeof h, {&attached, attached >= 0});
  ssize_t n = call_until(fd, POLLOUT, deadline_ms,
                         [&](int flags) { return sendmsg(fd, &m, flags | MSG_NOSIGNAL); });
  return n == (ssize_t)sizeof h && send_all(fd, body, bytes, deadline_ms);
}

bool receive_message(int fd, Header& h, void* body, uint32_t room, int* attached,
                     int64_t deadline_ms) {
  DescriptorMessage m(&h, sizeof h, attached ? 1 : 0);  // others are dropped
  ssize_t n = call_until(fd, POLLIN, deadline_ms,
                         [&](int flags) { return recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC); });
  int got = -1;
  if (n > 0) m.take(&got);
  bool ok = n > 0 && receive_all(fd, (char*)&h + n, sizeof h - (size_t)n, deadline_ms) &&
            h.body_bytes <= room && receive_all(fd, body, h.body_bytes, deadline_ms);
  if (attached && ok)
    *attached = got;
  else if (got >= 0)
    ::close(got);
  return ok;
}

const void* receive_page(int fd, size_t bytes, void* body, uint32_t room) {
  Header h;
  int page = -1;
  if (!receive_message(fd, h, body, room, &page, 0) || page < 0) return nullptr;
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, page, 0);
  ::close(page);
  return at == MAP_FAILED ? nullptr : at;
}

bool set_timeouts(int fd, int timeout_ms) {
  timeval timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000L};
  return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0;
}

bool address_of(const char* path, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof a.sun_path) return false;
  std::strcpy(a.sun_path, path);
  return true;
}

bool peer_of(int fd, ucred& peer) {
  socklen_t n = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0;
}

int bind_at(const char* path, int type) {
  sockaddr_un a;
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  unlink(path);
  // The file gets the mode of the socket. A umask would be that of all threads.
  if (fd >= 0 && fchmod(fd, 0600) == 0 && address_of(path, a) &&
      bind(fd, (sockaddr*)&a, sizeof a) == 0)
    return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

int listen_at(const char* path) {
  int fd = bind_at(path, SOCK_STREAM);
  if (fd < 0 || listen(fd, kBacklog) == 0) return fd;
  ::close(fd);
  return -1;
}

int connect_to(const char* path) {
  sockaddr_un a;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && address_of(path, a) && connect(fd, (sockaddr*)&a, sizeof a) == 0 &&
      fcntl(fd, F_SETFL, 0) == 0)
    return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace busbar::control
