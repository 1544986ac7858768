// Arrays: memory of one to three dimensions that textures, surfaces and copies use. A mipmapped
// array consists of arrays, its levels.
//
// Thread safety: an array does not change after its creation.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "checked_size.h"

namespace softgpu {

struct Context;

struct ArrayState {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};  // sizes in elements
  uint64_t base = 0, bytes = 0;
  int ordinal = 0;        // device
  bool is_level = false;  // of a mipmapped array, which owns the memory
  unsigned channel_bytes() const;
  // Bytes from one row to the next.
  CheckedSize pitch() const {
    return CheckedSize(descriptor.Width) * channel_bytes() * descriptor.NumChannels;
  }
  uint64_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  uint64_t slices() const { return descriptor.Depth ? descriptor.Depth : 1; }
};

struct MipmapState {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};  // of level 0
  uint64_t base = 0, bytes = 0;
  int ordinal = 0;
  std::vector<std::unique_ptr<ArrayState>> levels;  // from the largest one
};

// Return a copy of the array of a handle; nothing if the handle is not live.
std::optional<ArrayState> array_of(CUarray a);
// Return the number of levels of a mipmapped array; 0 if the handle is not live.
uint32_t level_count(CUmipmappedArray h);
// Return a level of a mipmapped array, or null.
CUarray level_of(CUmipmappedArray h, uint32_t level);
// Return the size of one channel in bytes; 0 if the format is not supported.
unsigned channel_bytes(CUarray_format format);

// Create an array, charged to the context's device.
CUresult create_array(Context* c, const CUDA_ARRAY3D_DESCRIPTOR& d, CUarray* out);
// Create a mipmapped array. It has at least one level, and at most those down to one element.
CUresult create_mipmap(Context* c, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels,
                       CUmipmappedArray* out);
// Destroy an array. CUDA_ERROR_INVALID_VALUE for a level of a mipmapped array.
CUresult destroy_array(CUarray h);
CUresult destroy_mipmap(CUmipmappedArray h);

}  // namespace softgpu
