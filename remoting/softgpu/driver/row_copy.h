// Copies of two and three dimensions: rows of host memory, device memory and arrays.
#pragma once
#include <cuda.h>

#include <functional>

namespace softgpu {

// Check a copy and make the function that executes it.
CUresult copy_runner(const CUDA_MEMCPY3D& copy, std::function<CUresult()>& run);

}  // namespace softgpu
