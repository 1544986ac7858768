// Texture objects: reads at points, between texels and between levels of a mipmapped array.
//
// Thread safety: a texture does not change after its creation; worker threads read it.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "softgpu/device/cta.h"

namespace softgpu {

struct TextureState {
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC description = {};
};

// Return an error if a texture of this resource cannot be read as described.
CUresult check_texture(const TextureState& s);
// Read a texture for the instructions tex and tld4: four channels as raw 32-bit values. Return
// false if the handle is no texture.
bool sample_texture(uint64_t handle, const TextureRead& read, uint32_t out[4]);

}  // namespace softgpu
