// Occupancy: blocks of a kernel that a multiprocessor runs at the same time.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace softgpu {

struct KernelState;

// The software GPU runs each block by itself: it has no clusters of several blocks.
constexpr unsigned kMaxClusterBlocks = 1;

// Get the number of blocks for each multiprocessor; 0 if a block has more threads or shared memory
// than the kernel may have. Compiles the kernel.
CUresult occupancy(KernelState* k, int threads, size_t dynamic_shared_bytes, int* blocks);
// Get the dynamic shared memory that each of `blocks` blocks on a multiprocessor can have.
CUresult available_shared_bytes(KernelState* k, int blocks, int threads, size_t* bytes);

// Return an error if a configuration has a cluster of a size that is not possible.
CUresult check_cluster(const CUlaunchConfig& config);
// Get the number of clusters that `multiprocessors` run at the same time.
CUresult active_clusters(KernelState* k, const CUlaunchConfig& config, unsigned multiprocessors,
                         int* clusters);

}  // namespace softgpu
