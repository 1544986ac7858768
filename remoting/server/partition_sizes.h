// Tells the client how much memory its partitions have, which the launcher changes while the
// session runs (ADR 73), and that another session needs memory.
//
// Thread safety: for the executor thread.
#pragma once

namespace busbar::server {

struct Session;

// Sends a frame for each partition whose size, or whether it is exceeded, differs from what the
// client knows, and a frame if memory is wanted.
void announce_partition_sizes(Session& s);

}  // namespace busbar::server
