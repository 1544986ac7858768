// Stream capture on the node. Every capture is RELAXED here: the client library has already decided
// what the program may do.
//
// Thread safety: executor thread only.
#pragma once
#include "server/session.h"

namespace busbar::server {

// Asks the driver whether the stream is captured, and updates its state. A stream joins a capture
// by waiting for one of its events, and leaves when the capture ends.
void update_capturing(Session& s, StreamState& st);

// Forgets the graph of a capture of this stream, which ends without a graph.
void forget_captured_graph(Session& s, StreamState& st);

}  // namespace busbar::server
