// Occupancy: blocks of a kernel that a multiprocessor runs at the same time.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace softgpu {

struct KernelState;

// Get the number of blocks for each multiprocessor. Compiles the kernel.
CUresult occupancy(KernelState* k, int threads, size_t dynamic_shared_bytes, int* blocks);
// Get the dynamic shared memory that each of `blocks` blocks on a multiprocessor can have.
CUresult available_shared_bytes(KernelState* k, int blocks, int threads, size_t* bytes);

}  // namespace softgpu
