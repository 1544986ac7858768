// CUDA contexts and the context stack of each thread.
//
// Thread safety: all functions may be called from any thread. Guards stand beside the members.
// Contexts are never freed, except by create_context() on failure; a destroyed one keeps its
// memory.
#pragma once
#include <cuda.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "client/stream.h"

namespace busbar::client {

struct Device;

struct Context {
  Device* device = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  uint64_t generation = 0;  // incremented when the context becomes active
  bool primary = false;
  std::atomic<bool> destroyed{false};
  Stream legacy;
  std::mutex mutex;                      // guards the next two
  std::vector<StreamRef> streams;        // created by the program; without `legacy`
  std::vector<StreamRef> ended_streams;  // destroyed by the program; their work may still run
  std::atomic<int> attached{1};          // references by cuCtxCreate and cuCtxAttach
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

// Return the primary context of a device. Its handle never changes. Call with the device's mutex.
Context* primary_context(Device* d);

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
