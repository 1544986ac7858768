#include "softgpu/driver/occupancy.h"

#include <algorithm>
#include <climits>

#include "checked_size.h"
#include "softgpu/driver/module.h"

namespace softgpu {

namespace {
constexpr unsigned kMaxBlocks = 24, kMaxWarps = 48;  // of a multiprocessor
constexpr unsigned kWarpThreads = 32;
constexpr uint64_t kSharedBytes = 100 << 10;                     // of a multiprocessor
constexpr uint64_t kReservedBytes = 1024;                        // of a block, for the driver
constexpr uint64_t kBlockBytes = kSharedBytes - kReservedBytes;  // that one block can have
constexpr uint64_t kSharedUnit = 128;  // in which blocks get shared memory

unsigned blocks_by_threads(const KernelState* k, int threads) {
  if ((uint64_t)threads > std::min<uint64_t>(1024, k->description.max_threads)) return 0;
  return kMaxWarps / (((unsigned)threads + kWarpThreads - 1) / kWarpThreads);
}

unsigned blocks_by_shared_memory(const KernelState* k, size_t dynamic_bytes) {
  if (dynamic_bytes > (uint64_t)k->dynamic_shared_limit.load()) return 0;
  CheckedSize each = CheckedSize(k->compiled->static_shared_bytes) + dynamic_bytes + kReservedBytes;
  return (unsigned)(kSharedBytes / each.rounded_up(kSharedUnit).value());
}

const CUlaunchAttribute* cluster_dimension(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return &config.attrs[i];
  return nullptr;
}
}  // namespace

CUresult check_cluster(const CUlaunchConfig& config) {
  const CUlaunchAttribute* a = cluster_dimension(config);
  if (!a) return CUDA_SUCCESS;  // clusters of one block
  auto& d = a->value.clusterDim;
  if (!d.x || !d.y || !d.z || volume(d.x, d.y, d.z) > kMaxClusterBlocks)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

CUresult occupancy(KernelState* k, int threads, size_t dynamic_shared_bytes, int* blocks) {
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  *blocks = (int)std::min({kMaxBlocks, blocks_by_threads(k, threads),
                           blocks_by_shared_memory(k, dynamic_shared_bytes)});
  return CUDA_SUCCESS;
}

CUresult active_clusters(KernelState* k, const CUlaunchConfig& config, unsigned multiprocessors,
                         int* clusters) {
  if (CUresult r = check_cluster(config)) return r;
  uint64_t threads = volume(config.blockDimX, config.blockDimY, config.blockDimZ);
  if (!threads || threads > INT_MAX || !volume(config.gridDimX, config.gridDimY, config.gridDimZ))
    return CUDA_ERROR_INVALID_VALUE;
  int blocks = 0;
  if (CUresult r = occupancy(k, (int)threads, config.sharedMemBytes, &blocks)) return r;
  *clusters = (int)volume((unsigned)blocks, multiprocessors, 1);
  return CUDA_SUCCESS;
}

CUresult available_shared_bytes(KernelState* k, int blocks, int threads, size_t* bytes) {
  int possible = 0;
  if (CUresult r = occupancy(k, threads, 0, &possible)) return r;
  if (blocks > possible) return CUDA_ERROR_INVALID_VALUE;
  uint64_t taken = k->compiled->static_shared_bytes;  // as NVIDIA's driver without reserved bytes
  uint64_t each = std::min(kSharedBytes / (unsigned)blocks & ~(kSharedUnit - 1), kBlockBytes);
  uint64_t limit = (uint64_t)k->dynamic_shared_limit.load();
  *bytes = each > taken ? std::min(each - taken, limit) : 0;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
