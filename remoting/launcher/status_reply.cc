#include "launcher/status_reply.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

namespace busbar::launcher {

bool StatusReply::read(int fd) {
  ssize_t n = recv(fd, (char*)&message_ + received_, sizeof message_ - received_, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  received_ += (size_t)n;
  return n > 0 && !complete();
}

bool StatusReply::valid() const {
  return complete() && message_.head.kind == (uint32_t)control::Kind::ok &&
         message_.head.body_bytes == sizeof message_.status;
}

size_t read_replies(std::vector<pollfd>& entries, std::vector<StatusReply>& replies) {
  size_t done = 0;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].fd >= 0 && entries[i].revents && !replies[i].read(entries[i].fd)) {
      ::close(entries[i].fd);
      entries[i].fd = -1;  // poll() ignores it
      ++done;
    }
  return done;
}

}  // namespace busbar::launcher
