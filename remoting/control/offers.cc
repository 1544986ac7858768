#include "control/offers.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/messages.h"

namespace busbar::control {

namespace {
bool send_descriptor(int socket, sockaddr_un& to, int attached) {
  char byte = 0;
  DescriptorMessage m(&byte, sizeof byte, {&attached, 1});
  m.msg_name = &to;
  m.msg_namelen = sizeof to;
  return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof byte;
}
}  // namespace

int receive_offers_at(const char* path) {
  return bind_at(path, SOCK_DGRAM);
}

int take_offer(int socket) {
  char byte;
  int offered = -1;
  DescriptorMessage m(&byte, sizeof byte, 1);
  if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) >= 0) m.take(&offered);
  return offered;
}

int offer_to(const char* path, int timeout_ms) {
  sockaddr_un to;
  int pair[2], fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || !address_of(path, to) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
    if (fd >= 0) ::close(fd);
    return -1;
  }
  bool taken = set_timeouts(fd, timeout_ms) && send_descriptor(fd, to, pair[1]);
  ::close(fd);
  ::close(pair[1]);
  if (taken) return pair[0];
  ::close(pair[0]);
  return -1;
}

}  // namespace busbar::control
