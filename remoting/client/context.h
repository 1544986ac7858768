// CUDA contexts and the context stack of each thread.
//
// Thread safety: all functions may be called from any thread. Guards stand beside the members.
// Contexts are never freed, except by create_context() on failure; a destroyed one keeps its
// memory.
#pragma once
#include <cuda.h>

#include <atomic>
#include <vector>

#include "client/device.h"
#include "client/stream.h"
#include "mutex.h"

namespace busbar::client {

struct Context {
  Device* device = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  uint64_t generation = 0;  // incremented when the context becomes active
  bool primary = false;
  std::atomic<bool> destroyed{false};
  Stream legacy;
  Mutex mutex;
  std::vector<StreamRef> streams GUARDED_BY(mutex);  // created by the program; without `legacy`
  // Destroyed by the program; their work may still run.
  std::vector<StreamRef> ended_streams GUARDED_BY(mutex);
  std::atomic<int> attached{1};  // references by cuCtxCreate and cuCtxAttach
  std::atomic<int> non_blocking_streams{0};
  std::atomic<int> capturing_streams{0};  // blocking ones; the legacy stream must not be used
  void* handle = nullptr;
};

// Return the context stack of the calling thread.
std::vector<Context*>& context_stack();
Context* current_context();  // null: none

// Finds the current context. Fails without a session, without a context, with a destroyed context,
// and with the sticky error of the link.
CUresult require_context(Context*& c);

// Creates a context on the node. Blocks for one round trip.
CUresult create_context(Device* d, unsigned flags, Context*& out);
// Creates an inactive context on the node again, with new ids. Blocks for one round trip.
CUresult activate_context(Context* c);

// Return the primary context of a device. Its handle never changes.
Context* primary_context(Device* d) REQUIRES(d->mutex);

// Creates a stream on the node. The program does not know it, and no call waits for it, unless the
// caller adds it to its context.
CUresult open_stream(Context* c, unsigned flags, int priority, StreamRef& out);

// Returns the streams of a context on which work may run.
std::vector<StreamRef> streams_with_work(Context* c);
// Waits for all work submitted to the streams of a context, also to those destroyed since.
CUresult synchronize(Context* c);

// Waits until the output printed by kernels has reached the program's stdout. Sends a request only
// if a loaded module can print; otherwise the node sends output when it is idle.
CUresult flush_kernel_output(Context* c);

}  // namespace busbar::client
