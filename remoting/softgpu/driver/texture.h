// Texture objects of one and two dimensions, read at points or with linear filtering.
//
// Thread safety: a texture does not change after its creation; worker threads read it.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "checked_size.h"

namespace softgpu {

struct TextureState {
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC description = {};
};

// The texels of a texture in an array or in linear or pitched memory.
struct Texels {
  uint64_t base = 0, pitch = 0, width = 0, height = 1;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;
  CheckedSize row_bytes() const;
  CheckedSize bytes() const;  // from the first to the last texel
};

// Get the texels of a texture. Return false if its resource is not valid or its rows overlap.
bool texels_of(const TextureState& t, Texels& out);
// Read a texture for the instruction tex: four channels as raw 32-bit values. `at` has one
// coordinate for each dimension. Return false if the handle is no texture.
bool sample_texture(uint64_t handle, int dimensions, const double* at, uint32_t out[4]);

}  // namespace softgpu
