// Socket pairs whose other end has sent bytes, for fuzz targets of receivers.
#pragma once
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "control/messages.h"

namespace busbar::fuzz {

constexpr size_t kMaxDescriptors = control::DescriptorMessage::kMost;

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
  control::DescriptorMessage m(p, n, {attached, descriptors});
  (void)!sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// It grows when a descriptor leaks.
inline int lowest_descriptor() {
  int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
  close(fd);
  return fd;
}

}  // namespace busbar::fuzz
