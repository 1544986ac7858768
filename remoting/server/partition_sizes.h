// Tells the client how much memory its partitions have, which the launcher changes while the
// session runs (ADR 73), and that its unused memory is needed.
//
// Thread safety: for the executor thread.
#pragma once

namespace busbar::server {

struct Session;

// Sends a frame for each partition whose size, or whether it is exceeded, differs from what the
// client knows. Unused memory is wanted of a client whose partition has shrunk below what is
// charged: the program may make no call for a long time.
void announce_partition_sizes(Session& s);

// Asks the client for unused memory if it is wanted.
void ask_for_unused_memory(Session& s);

}  // namespace busbar::server
