// Device memory of arrays: its size and its clearing.
//
// Thread safety: any thread. The functions that clear block until the driver is done; a context of
// the array's device must be current.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "server/driver.h"

namespace busbar::server {

// Returns the charge for an array, or for the levels of a mipmapped array if `levels` is not 0. It
// is an upper bound.
uint64_t array_charge(const Driver& cu, const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels);

// Clear an array, whose memory another tenant may have used. They do nothing if the driver provides
// cleared memory. CUDA_ERROR_NOT_SUPPORTED: for this format it is not known how.
CUresult clear_array(Driver& cu, CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& d);
CUresult clear_mipmap(Driver& cu, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR& d,
                      uint32_t levels);

}  // namespace busbar::server
