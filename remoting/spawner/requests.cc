#include "spawner/requests.h"

#include "control/messages.h"

namespace busbar::spawner {

bool receive_request(int fd, Request& request) {
  static_assert(kMaxDescriptors <= control::DescriptorMessage::kMost);
  control::DescriptorMessage m(&request.fields, sizeof request.fields, kMaxDescriptors);
  ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
  if (n >= 0) m.take(request.attached);
  return n == (ssize_t)sizeof request.fields && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

}  // namespace busbar::spawner
