// Tells the client how much memory its partitions have, which the launcher changes while the
// session runs (ADR 73), and that another session needs memory.
//
// Thread safety: for the executor thread.
#pragma once

namespace busbar::server {

struct Session;

// Sends a frame for each partition whose size, or whether it is exceeded, differs from what the
// client knows.
void announce_partition_sizes(Session& s);

// Asks the client for unused memory if another session wants it.
void ask_for_unused_memory(Session& s);

}  // namespace busbar::server
