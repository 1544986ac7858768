// Requests to the node for device memory outside of the heap: physical memory, arrays, modules,
// stacks of functions, limits of contexts and memory of other processes.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

#include <functional>

#include "client/attempt.h"
#include "client/link.h"

namespace busbar::client {

struct Context;
struct Device;

// Sends a request for memory of a device and waits for the reply. With `asks`, the node asks the
// other sessions of the allocation for unused memory if there is not enough.
using MemoryRequest = std::function<CUresult(bool asks)>;

// Calls `send`, and while the memory does not suffice calls it again: after the return of this
// process's unused leases; for Attempt::waits after wait_for_freed_memory(c); and with `asks`, but
// for Attempt::first. `c` is a context of the device for Attempt::waits, and not used otherwise.
CUresult request_memory(Device* d, Context* c, Attempt attempt, const MemoryRequest& send);

// Waits for the work of a context if it delays the return of freed memory of its device. Call
// without a lock.
void wait_for_freed_memory(Context* c);

// Calls `request`, which takes a lock, for Attempt::first, and for Attempt::last after
// wait_for_freed_memory() if the memory does not suffice.
template <typename F>
CUresult request_with_lock(Context* c, F request) {
  CUresult r = request(Attempt::first);
  if (r != CUDA_ERROR_OUT_OF_MEMORY) return r;
  wait_for_freed_memory(c);
  return request(Attempt::last);
}

// Requests physical memory of a device. `c` is a context on its node, or null.
CUresult create_physical_memory(Device* d, Context* c, Attempt attempt, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle);

}  // namespace busbar::client
