#include "softgpu/driver/occupancy.h"

#include <algorithm>

#include "checked_size.h"
#include "softgpu/driver/module.h"

namespace softgpu {

namespace {
constexpr unsigned kMaxBlocks = 24, kMaxThreads = 1536;  // of a multiprocessor
constexpr uint64_t kSharedBytes = 100 << 10;             // of a multiprocessor
constexpr uint64_t kReservedBytes = 1024;                // of a block, for the driver
}  // namespace

CUresult occupancy(KernelState* k, int threads, size_t dynamic_shared_bytes, int* blocks) {
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  uint64_t shared = (CheckedSize(k->compiled->static_shared_bytes) + dynamic_shared_bytes).value();
  int by_threads = threads > 1024 ? 0 : (int)kMaxThreads / threads,
      by_shared = shared ? (int)(kSharedBytes / (CheckedSize(shared) + kReservedBytes).value())
                         : (int)kMaxBlocks;
  *blocks = std::min({(int)kMaxBlocks, by_threads, by_shared});
  return CUDA_SUCCESS;
}

CUresult available_shared_bytes(KernelState* k, int blocks, int threads, size_t* bytes) {
  int possible = 0;
  if (CUresult r = occupancy(k, threads, 0, &possible)) return r;
  if (blocks > possible) return CUDA_ERROR_INVALID_VALUE;
  uint64_t taken = kReservedBytes + k->compiled->static_shared_bytes;
  uint64_t each = kSharedBytes / (unsigned)blocks;
  uint64_t limit = (uint64_t)k->dynamic_shared_limit.load();
  *bytes = each > taken ? std::min(each - taken, limit) : 0;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
