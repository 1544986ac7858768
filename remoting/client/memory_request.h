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
// process's unused leases, after the work of `c` that delays the return of freed memory, and with
// `asks`. `c` is a context of the device, or null.
CUresult request_memory(Device* d, Context* c, const MemoryRequest& send);

// Requests physical memory of a device. `c` is a context on its node, or null.
CUresult create_physical_memory(Device* d, Context* c, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle);

}  // namespace busbar::client
