// Sizes of arrays and of their elements, as client, session server and software GPU compute them.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace busbar {

// Levels of mipmapped arrays on the software GPU begin at multiples of this many bytes.
constexpr uint64_t kLevelAlignment = 16;

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

inline bool has_layers(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

// Return the number of levels that a driver creates if `requested` are wanted: at least one, and at
// most those down to one element.
inline uint32_t mipmap_levels(const CUDA_ARRAY3D_DESCRIPTOR& shape, uint32_t requested) {
  size_t depth = has_layers(shape) ? 1 : shape.Depth;
  size_t largest = std::max({shape.Width, shape.Height, depth, (size_t)1});
  return std::clamp(requested, 1u, (uint32_t)std::bit_width(largest));
}

// Return the shape of a level. Layers stay as many.
inline CUDA_ARRAY3D_DESCRIPTOR shape_of_level(CUDA_ARRAY3D_DESCRIPTOR d, uint32_t level) {
  auto smaller = [&](size_t n) {
    return n ? std::max<size_t>(level < 64 ? n >> level : 0, 1) : 0;
  };
  d.Width = smaller(d.Width);
  d.Height = smaller(d.Height);
  if (!has_layers(d)) d.Depth = smaller(d.Depth);
  return d;
}

}  // namespace busbar
