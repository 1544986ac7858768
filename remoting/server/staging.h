// Host memory for the copies of records. A record that finds none waits for completions, or for the
// thread `memory` to add some; the executor goes on with other streams.
//
// Thread safety: executor thread only. No function waits for a buffer.
#pragma once
#include "server/outcome.h"
#include "server/pipeline.h"

namespace busbar::server {

// Takes a pinned buffer of at least `bytes` (at most PinnedPool::kSlabBytes) for work of a stream.
// Outcome::done without a buffer: the driver has no memory, which the next completion reports.
Outcome take_staging(Pipeline& p, StreamState& st, uint64_t bytes, PinnedBuffer& out);

// Has the thread `memory` add a slab to the pool, then wake the executor.
void grow_pool(Pipeline& p);

// Takes a chunk of shared memory for bytes to the client. Returns -1 if the stream holds its share,
// or if all chunks are in use.
int take_chunk(Pipeline& p, StreamState& st);

}  // namespace busbar::server
