// Fills of rows of device memory.
#pragma once
#include <cuda.h>

#include <functional>

namespace softgpu {

// Check a fill and make the function that executes it.
CUresult fill_runner(const CUDA_MEMSET_NODE_PARAMS& fill, std::function<CUresult()>& run);

}  // namespace softgpu
