// The start of a session in a session server, which may be hostile.
//
// Thread safety: any thread. The functions keep no state.
#pragma once
#include <cstdint>
#include <memory>

#include "control/session_sockets.h"

namespace busbar::launcher {

// Sends the start message and the sockets that belong to it. Returns the reply; null if there is no
// valid one before the deadline of transport::now_ms(). `violations` gets the descriptor that comes
// with the reply, in any case.
std::unique_ptr<control::SessionReady> start_session(int fd, control::SessionStart& start,
                                                     const control::SessionSockets& sockets,
                                                     int& violations, int64_t deadline_ms);

}  // namespace busbar::launcher
