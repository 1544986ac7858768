// Streams by their handle.
//
// Thread safety: stream_for takes Context::mutex and callers must not hold it.
#pragma once
#include <cuda.h>

#include "softgpu/driver/stream.h"

namespace softgpu {

// Above 0 while the calling thread executes the per-thread form of a function, whose default stream
// is the thread's own.
extern thread_local int t_per_thread_default;

// Find a stream by its handle: null is the legacy stream, or the calling thread's own if it is the
// default; CU_STREAM_LEGACY and CU_STREAM_PER_THREAD name them.
CUresult stream_for(CUstream handle, Context* c, StreamRef& out);
// The same for a call that submits work, which fails if the capture of the stream is invalid.
CUresult stream_for_work(CUstream handle, Context* c, StreamRef& out);

}  // namespace softgpu
