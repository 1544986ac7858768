// Texels of arrays and of linear or pitched memory, as values of instructions.
//
// Thread safety: no function changes an object; worker threads call them.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "checked_size.h"

namespace softgpu {

// Sizes in texels, distances in bytes.
struct Texels {
  uint64_t base = 0, pitch = 0, width = 0, height = 1;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;
  uint64_t depth = 1, slice = 0;
  CheckedSize row_bytes() const;
  CheckedSize bytes() const;  // from the first to the last texel
};

// The value of a texel.
struct TexelFormat {
  bool as_float = false;  // integers become floats in [0, 1] or [-1, 1]
  bool srgb = false;      // 8-bit colours are those of sRGB
  const float* border = nullptr;
};

// Get the texels of a resource: for a mipmapped array, those of a level. Return false if the
// resource is not valid or its rows overlap.
bool texels_of(const CUDA_RESOURCE_DESC& r, uint32_t level, Texels& out);
// Return the number of levels of a resource; 1 if it is no mipmapped array.
uint32_t levels_of(const CUDA_RESOURCE_DESC& r);

// Return one channel of one texel: its raw 32 bits, or those of a float. A coordinate of -1 is the
// border.
uint32_t channel(const Texels& t, const TexelFormat& f, const int64_t at[3], unsigned c);

}  // namespace softgpu
