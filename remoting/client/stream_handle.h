// Resolution of stream handles, including the default streams.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

namespace busbar::client {

struct Context;
struct Stream;

// Greater than 0 while the calling thread executes a per-thread-default-stream form of a function,
// where stream 0 is the thread's own default stream.
extern thread_local int t_per_thread_default;

// Return the stream of a handle, or null for an invalid one. The thread's own default stream is
// created on first use.
Stream* find_stream(CUstream handle, Context* c);

}  // namespace busbar::client
