// Device memory of a context: allocation, and copies on its legacy stream.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

#include "client/address_map.h"
#include "client/attempt.h"
#include "client/heap.h"

namespace busbar::client {

struct Context;
struct Stream;

// Allocates device memory without an entry in the address map. Blocks for a round trip if no lease
// has room, and always on a device without an arena. If the memory does not suffice otherwise,
// goes as far as the attempt says.
CUresult allocate_device_memory(Context* c, uint64_t bytes, uint64_t& at,
                                Attempt attempt = Attempt::waits);
// Frees device memory. An arena reuses the range once `done` holds; without an arena the node waits
// for parked records.
CUresult release_device_memory(const Region& r, Heap::Done done);

// Return a condition that holds when all work submitted to a context so far is complete.
Heap::Done submitted_work_done(Context* c);

// Submits a copy of host memory to a device address. The bytes have been read when it returns.
// Blocks for the credit of the link.
CUresult submit_upload(Context* c, Stream* s, CUdeviceptr to, const void* from, size_t bytes);
// The same on the legacy stream.
CUresult submit_upload(Context* c, CUdeviceptr to, const void* from, size_t bytes);
// Submits a copy to host memory. The bytes have arrived when `position` of the stream is complete.
CUresult submit_download(Context* c, Stream* s, void* to, CUdeviceptr from, size_t bytes,
                         uint64_t& position);
// The same on the legacy stream.
CUresult submit_download(Context* c, void* to, CUdeviceptr from, size_t bytes, uint64_t& position);

}  // namespace busbar::client
