// Copies of two and three dimensions: rows of host memory, device memory and arrays.
#pragma once
#include <cuda.h>

#include <functional>

#include "softgpu/device/engine.h"

namespace softgpu {

// Check a copy and make the function that executes it. `engine` counts it.
CUresult copy_runner(Engine* engine, const CUDA_MEMCPY3D& copy, std::function<CUresult()>& run);

}  // namespace softgpu
