// Fills of rows of device memory.
#pragma once
#include <cuda.h>

#include <functional>

#include "softgpu/device/engine.h"

namespace softgpu {

// Check a fill and make the function that executes it. `engine` counts it.
CUresult fill_runner(Engine* engine, const CUDA_MEMSET_NODE_PARAMS& fill,
                     std::function<CUresult()>& run);

}  // namespace softgpu
