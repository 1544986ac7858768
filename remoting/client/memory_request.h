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

// Calls `send`, which sends a request for memory of a device and waits for the reply. If the memory
// does not suffice, waits for the work of `c`, a context of the device or null, returns the unused
// leases of this process and calls it once more.
Reply request_memory(Device* d, Context* c, const std::function<Reply()>& send);

// Requests physical memory of a device. `c` is a context on its node, or null.
CUresult create_physical_memory(Device* d, Context* c, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle);

}  // namespace busbar::client
