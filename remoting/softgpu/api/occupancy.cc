// CUDA entry points: occupancy.
#include <algorithm>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/occupancy.h"

using namespace softgpu;

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads,
                                                         size_t dynamic) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  return occupancy(k, threads, dynamic, blocks);
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f,
                                                                  int threads, size_t dynamic,
                                                                  unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, dynamic);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                              CUoccupancyB2DSize size_of, size_t dynamic,
                                              int limit) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  int most = (int)std::min<uint64_t>(1024, k->description.max_threads);
  if (limit > 0) most = std::min(most, limit);
  int best = 32;
  uint64_t best_threads = 0;
  for (int t = (most + 31) & ~31; t >= 32; t -= 32) {
    int blocks = 0, threads = std::min(t, most);
    if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, f, threads, size_of ? size_of(threads) : dynamic))
      return r;
    uint64_t resident = volume((unsigned)blocks, (unsigned)threads, 1);
    if (resident > best_threads) {
      best_threads = resident;
      best = threads;
      *grid = (int)volume((unsigned)blocks, driver()->config.multiprocessors, 1);
    }
  }
  *block = best;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                       CUoccupancyB2DSize size_of, size_t dynamic,
                                                       int limit, unsigned) {
  return cuOccupancyMaxPotentialBlockSize(grid, block, f, size_of, dynamic, limit);
}

// The inverse of cuOccupancyMaxActiveBlocksPerMultiprocessor.
API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks,
                                                     int threads) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  return available_shared_bytes(k, blocks, threads, bytes);
}
