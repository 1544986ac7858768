// Stream capture on the node. Every capture is RELAXED here: the client library has already decided
// what the program may do.
//
// All contexts of a program on a device stand for one context of the driver, with one legacy
// stream. Beside a captured stream that is ordered with it, the driver refuses that stream in all
// of them. So a stream that is not ordered with it stands for a captured one until its capture
// ends.
//
// Thread safety: executor thread only.
#pragma once
#include "server/session.h"

namespace busbar::server {

// Lets a stream of its own stand for a stream that is ordered with the legacy stream, before a call
// by which it may become captured. update_capturing() ends that when it is not captured.
CUresult enter_capture(Session& s, StreamState& st);

// A stream ends: so does the capture that began on it.
void leave_capture(Session& s, StreamState& st);

// Asks the driver whether the stream is captured, and updates its state. A stream joins a capture
// by waiting for one of its events, and leaves when the capture ends.
void update_capturing(Session& s, StreamState& st);

// Does so for all captured streams: a capture ends for all of its streams at once, also with the
// stream that began it. Returns the first error of a capture that has ended.
CUresult update_captures(Session& s);

}  // namespace busbar::server
