// Requests for tensor maps: their documented limits, and the encoding of the software GPU.
//
// Thread safety: constant. No function blocks.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "softgpu/device/tensor_map.h"

namespace softgpu {

constexpr uint32_t kMajorOfTensorMaps = 9;  // the first compute capability that has them

// The parameters that all kinds of tensor maps have.
struct TensorShape {
  CUtensorMapDataType type;
  uint32_t rank;
  uint64_t address;
  const cuuint64_t* sizes;    // elements
  const cuuint64_t* strides;  // bytes; one less than dimensions
  const cuuint32_t* steps;    // of the traversal
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
  uint32_t compute_major;  // of the device
  uint64_t max_size;       // elements of a dimension
};

// A box of pixels for convolutions.
struct TensorPixels {
  const int *lower, *upper;  // offsets of the corners, of each dimension between C and N
  uint32_t offsets;          // number of either
  int lowest, highest;       // that an offset can be
  uint32_t channels, pixels;
};

// Return whether the shape is within the limits for all kinds: those of NVIDIA's driver where
// it differs from the documentation (ADR 99).
bool is_valid(const TensorShape& t);
// Return whether a map of this type can start at an address.
bool is_valid_address(uint8_t type, uint8_t interleave, uint64_t address);
// Return whether elements that lie side by side fit into the lines that the map swizzles.
bool is_valid_row(const TensorShape& t, uint32_t elements);
// Return whether the elements that one copy covers are within the limits.
bool is_valid_box(const TensorShape& t, const cuuint32_t* box);
bool is_valid(const TensorPixels& p, const TensorShape& t);

// The encodings of valid requests.
TensorMap encode_tiled(const TensorShape& t, const cuuint32_t* box);
TensorMap encode_pixels(const TensorShape& t, const TensorPixels& p, TensorMapMode mode);

}  // namespace softgpu
