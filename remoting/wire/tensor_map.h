// Arguments of the functions that encode a tensor map, in one layout.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace busbar::wire {

enum class TensorMapKind : uint32_t { tiled = 0, im2col = 1, im2col_wide = 2, replace_address = 3 };

struct TensorMapRequest {
  TensorMapKind kind;
  uint32_t type, rank;  // CUtensorMapDataType; 1 to 5
  uint32_t channels, pixels;
  uint32_t interleave, swizzle, promotion, fill, mode;  // the CUtensorMap* enumerations
  uint64_t address;
  uint64_t dimensions[5], strides[5];  // elements; bytes
  uint32_t box[5], element_strides[5];
  int32_t lower[5], upper[5];
  CUtensorMap map;  // for replace_address
};

}  // namespace busbar::wire
