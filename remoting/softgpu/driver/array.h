// Arrays and textures: memory of one to three dimensions and the ways to read it.
#pragma once
#include "softgpu/driver/state.h"

namespace softgpu {

struct ArrayState {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  uint64_t base = 0, bytes = 0;
  int ordinal = 0;
  unsigned element_bytes() const;  // of one channel
  uint64_t pitch() const { return descriptor.Width * element_bytes() * descriptor.NumChannels; }
  uint64_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  uint64_t slices() const { return descriptor.Depth ? descriptor.Depth : 1; }
};

const ArrayState* array_of(CUarray a);  // null: not an array

// What `tex` reads: four channels as raw 32-bit values. False: the handle is no texture.
bool sample_texture(uint64_t handle, int dimensions, const double* at, uint32_t out[4]);

}  // namespace softgpu
