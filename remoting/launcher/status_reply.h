// The reply of a session server to a status request. The session server may be hostile.
//
// Thread safety: a StatusReply belongs to one thread. No function blocks.
#pragma once
#include <poll.h>

#include <cstddef>
#include <vector>

#include "control/messages.h"

namespace busbar::launcher {

// The reply, as far as it has arrived.
class StatusReply {
 public:
  // Reads what has arrived. False when nothing more will come.
  bool read(int fd);
  bool valid() const;
  const control::SessionStatus& status() const { return message_.status; }  // as claimed

 private:
  bool complete() const { return received_ == sizeof message_; }
  struct {
    control::Header head;
    control::SessionStatus status;
  } message_{};
  size_t received_ = 0;
};

// Reads the replies that poll() has reported. Closes the connections that are done, sets their
// descriptors to -1 and returns their number.
size_t read_replies(std::vector<pollfd>& entries, std::vector<StatusReply>& replies);

}  // namespace busbar::launcher
