// Tells the client how much memory its partitions have. The launcher changes that while the session
// runs (ADR 73).
//
// Thread safety: for the executor thread.
#pragma once

namespace busbar::server {

struct Session;

// Sends a frame for each partition whose size, or whether it is exceeded, differs from what the
// client knows.
void announce_partition_sizes(Session& s);

}  // namespace busbar::server
