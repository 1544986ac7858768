// Requests to the node for device memory outside of the heap: physical memory, arrays, modules,
// stacks of functions, limits of contexts and memory of other processes.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

#include <functional>

#include "client/link.h"

namespace busbar::client {

struct Context;
struct Device;

// Sends a request for memory of a device and waits for the reply. With `asks`, the node asks the
// other sessions of the allocation for unused memory if there is not enough.
using MemoryRequest = std::function<CUresult(bool asks)>;

// Calls `send`, and while the memory does not suffice calls it again: after the return of this
// process's unused leases, after wait_for_freed_memory(c), and with `asks`. `c` is a context of the
// device, or null for a caller with a lock, because the work may wait for another thread that needs
// the lock.
CUresult request_memory(Device* d, Context* c, const MemoryRequest& send);

// Waits for the work of a context if it delays the return of freed memory of its device. Returns
// false if it delays none. Call without a lock.
bool wait_for_freed_memory(Context* c);

// Calls `request`, which takes a lock, and once more after wait_for_freed_memory().
template <typename F>
CUresult request_with_lock(Context* c, F request) {
  CUresult r = request();
  return r == CUDA_ERROR_OUT_OF_MEMORY && wait_for_freed_memory(c) ? request() : r;
}

// Requests physical memory of a device. `c` is a context on its node, or null. A caller with a lock
// must not wait, as for request_memory().
CUresult create_physical_memory(Device* d, Context* c, bool may_wait, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle);

}  // namespace busbar::client
