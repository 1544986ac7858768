// 2D and 3D copies between host memory, device memory and arrays.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

#include "client/rows.h"

namespace busbar::client {

struct Context;

// A copy after CU_MEMORYTYPE_UNIFIED has been resolved. Host sides are described by `source` and
// `target`; `copy` holds the rest, as sent to the node.
struct CopySides {
  CUDA_MEMCPY3D copy{};
  bool from_host = false, to_host = false;
  Rows source, target;
};

// Resolves the sides and checks pitches, ranges and arrays. Pinned memory that is named as device
// memory gets a device copy in the context, unless it is null. Returns CUDA_ERROR_INVALID_VALUE
// where the driver rejects the copy at once.
CUresult resolve_copy(Context* c, const CUDA_MEMCPY3D& p, CopySides& out);

// Copies on a stream. Waits for the copy if `synchronous`, and for copies to pageable host memory.
CUresult copy_rows(const CUDA_MEMCPY3D& p, CUstream stream, bool synchronous);

}  // namespace busbar::client
