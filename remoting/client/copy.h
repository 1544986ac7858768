// Copies of rows between host memory, device memory and arrays: what all forms of 2D and 3D copies
// come down to.
#pragma once
#include "client/call.h"
#include "client/rows.h"

namespace busbar::client {

// The sides of a copy after CU_MEMORYTYPE_UNIFIED was resolved. Host sides as rows; `copy` is what
// the node is told of the rest.
struct CopySides {
  CUDA_MEMCPY3D copy{};
  bool from_host = false, to_host = false;
  Rows source, target;
};

// Checks pitches, ranges and arrays. INVALID_VALUE at once where the driver would say it at once.
CUresult resolve_copy(const CUDA_MEMCPY3D& p, CopySides& out);
CUresult copy_rows(const CUDA_MEMCPY3D& p, CUstream stream, bool synchronous);

// array.cc: the shape of an array; false when the node does not know it.
bool array_shape(CUarray a, CUDA_ARRAY3D_DESCRIPTOR& out);
uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d);

}  // namespace busbar::client
