// Mapped host memory: host memory that kernels access through a device pointer.
//
// A copy in device memory is created when the program requests the device pointer. Changes are
// found by comparing pages with the content at the last synchronization. A kernel that waits for a
// write by the host during its run, or the reverse, does not work over a network.
//
// Thread safety: all functions may be called from any thread. One mutex, held while memory is
// compared, sent or fetched.
#pragma once
#include <cuda.h>

#include "client/address_map.h"
#include "client/host_mirror_count.h"

namespace busbar::client {

struct Stream;

// Creates the device copy of a pinned or registered region on first use and returns its address.
CUresult map_host_memory(const Region& r, uint64_t& device);
// Frees the device copy of a region, if there is one.
void unmap_host_memory(const void* host);

// Sends the changes of the program to the node. Call it before work is submitted to a stream.
CUresult flush_mapped(Stream& s);
// Fetches the changes of kernels. Call it after a wait for the work of a context.
CUresult fetch_mapped(Context* c);

bool is_mapped(CUdeviceptr p);  // whether the address lies in a device copy

// Ends a copy without a stream: a copy to mapped host memory is complete when it returns, because
// the program may read that memory.
inline CUresult synchronize_if_mapped(CUresult r, CUdeviceptr to) {
  return r || !has_host_mirrors() || !is_mapped(to) ? r : cuStreamSynchronize(nullptr);
}

}  // namespace busbar::client
