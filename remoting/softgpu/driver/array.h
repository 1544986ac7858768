// Arrays: memory of one to three dimensions that textures and copies use.
//
// Thread safety: an array does not change after its creation.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "checked_size.h"

namespace softgpu {

struct ArrayState {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};  // sizes in elements
  uint64_t base = 0, bytes = 0;
  int ordinal = 0;  // device
  unsigned channel_bytes() const;
  // Bytes from one row to the next.
  CheckedSize pitch() const {
    return CheckedSize(descriptor.Width) * channel_bytes() * descriptor.NumChannels;
  }
  uint64_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  uint64_t slices() const { return descriptor.Depth ? descriptor.Depth : 1; }
};

// Return the array of a handle, or null.
const ArrayState* array_of(CUarray a);
// Return the size of one channel in bytes; 0 if the format is not supported.
unsigned channel_bytes(CUarray_format format);

}  // namespace softgpu
