#include "launcher/session_start.h"

#include <cstddef>

namespace busbar::launcher {

using control::Kind;

std::unique_ptr<control::SessionReady> start_session(int fd, control::SessionStart& start,
                                                     const control::SessionSockets& sockets,
                                                     int& violations, int64_t deadline_ms) {
  if (!control::send_start(fd, start, sockets, deadline_ms)) return nullptr;
  auto ready = std::make_unique<control::SessionReady>();
  control::Header h{};
  if (control::receive_message(fd, h, ready.get(), sizeof *ready, &violations, deadline_ms) &&
      h.kind == (uint32_t)Kind::ok &&
      h.body_bytes == offsetof(control::SessionReady, description) + ready->bytes)
    return ready;
  return nullptr;
}

}  // namespace busbar::launcher
