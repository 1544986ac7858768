// CUDA entry points: occupancy.
#include <algorithm>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/occupancy.h"
#include "wire/launch_attribute.h"

using namespace softgpu;

// Return an error unless a launch accepts the attributes of a configuration.
static CUresult check_configuration(const CUlaunchConfig* config) {
  constexpr auto kLaunch = busbar::wire::AttributeUse::launch;
  if (!config || (config->numAttrs && !config->attrs) ||
      config->numAttrs > busbar::wire::kMaxLaunchAttributes)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (CUlaunchAttributeID id = config->attrs[i].id; !find_attribute(id, kLaunch))
      return refusal(id, kLaunch);
  return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads,
                                                         size_t dynamic) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  return occupancy(k, threads, dynamic, blocks);
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f,
                                                                  int threads, size_t dynamic,
                                                                  unsigned flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, dynamic);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                              CUoccupancyB2DSize size_of, size_t dynamic,
                                              int limit) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  unsigned multiprocessors = device_at(k->module->ordinal)->engine->config().multiprocessors;
  int most = (int)std::min<uint64_t>(1024, k->description.max_threads);
  if (limit > 0) most = std::min(most, limit);
  int best = *grid = 0;  // if no block fits
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
      *grid = (int)volume((unsigned)blocks, multiprocessors, 1);
    }
  }
  *block = best;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                       CUoccupancyB2DSize size_of, size_t dynamic,
                                                       int limit, unsigned flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxPotentialBlockSize(grid, block, f, size_of, dynamic, limit);
}

// The inverse of cuOccupancyMaxActiveBlocksPerMultiprocessor.
API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks,
                                                     int threads) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  return available_shared_bytes(k, blocks, threads, bytes);
}

// The dimensions of the cluster in the configuration must be valid, and do not matter.
API CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction f,
                                                const CUlaunchConfig* config) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_KERNEL_STATE(k, f);
  (void)k;
  if (!blocks) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_configuration(config)) return r;
  if (CUresult r = check_cluster(*config)) return r;
  *blocks = kMaxClusterBlocks;
  return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f,
                                          const CUlaunchConfig* config) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_KERNEL_STATE(k, f);
  if (!clusters) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_configuration(config)) return r;
  const DeviceConfig& d = device_at(k->module->ordinal)->engine->config();
  return active_clusters(k, *config, d.multiprocessors, clusters);
}
