// Arrays and mipmapped arrays. The client caches shapes, so that copies are checked without a round
// trip.
//
// Thread safety: all functions may be called from any thread. The cache has one mutex, which is not
// held during a round trip.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "wire/object_kind.h"

namespace busbar::client {

// Creates an array, or a mipmapped array with `levels` > 0. Blocks for a round trip.
CUresult create_array(ObjectKind kind, const CUDA_ARRAY3D_DESCRIPTOR& shape, uint32_t levels,
                      uint64_t& out);
// Destroys an array after all work of its context. Blocks for a round trip.
CUresult destroy_array(ObjectKind kind, uint64_t value);

// Return the shape of an array in `out`, or false if the node does not know the array. Blocks for a
// round trip if it is not cached (a level of a mipmapped array).
bool array_shape(CUarray a, CUDA_ARRAY3D_DESCRIPTOR& out);

}  // namespace busbar::client
