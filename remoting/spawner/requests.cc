#include "spawner/requests.h"

#include <sys/socket.h>

#include <cstring>

namespace busbar::spawner {

bool receive_request(int fd, Request& request) {
  iovec io{&request.fields, sizeof request.fields};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof request.attached)] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = room;
  m.msg_controllen = sizeof room;
  ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      std::memcpy(request.attached, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  return n == (ssize_t)sizeof request.fields && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

}  // namespace busbar::spawner
