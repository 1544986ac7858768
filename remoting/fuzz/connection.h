// Socket pairs whose other end has sent bytes, for fuzz targets of receivers.
#pragma once
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace busbar::fuzz {

constexpr size_t kMaxDescriptors = 4;

struct Connection {
  int here, there;
};

inline Connection connect(int type = SOCK_STREAM) {
  int pair[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair)) abort();
  return {pair[0], pair[1]};
}

// Sends bytes, the first ones with so many descriptors.
inline void send_with(int fd, const uint8_t* p, size_t n, size_t descriptors) {
  int attached[kMaxDescriptors];
  std::fill_n(attached, kMaxDescriptors, fd);
  iovec io{const_cast<uint8_t*>(p), n};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof attached)] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (descriptors) {
    m.msg_control = room;
    m.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    std::memcpy(CMSG_DATA(c), attached, descriptors * sizeof(int));
  }
  (void)!sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// It grows when a descriptor leaks.
inline int lowest_descriptor() {
  int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
  close(fd);
  return fd;
}

}  // namespace busbar::fuzz
