// Size of an element of an array.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace busbar {

// Return the bytes of one element; 16, the maximum, for block-compressed and packed formats.
inline uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  switch (shape.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return shape.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2ull * shape.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4ull * shape.NumChannels;
    default: return 16;
  }
}

}  // namespace busbar
