// Arrays of the null driver: rows without padding.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

struct NullArray {
  explicit NullArray(const CUDA_ARRAY3D_DESCRIPTOR& d);
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  size_t row_bytes, rows, slices;
  std::vector<uint8_t> content;  // dirty when it is new
};
