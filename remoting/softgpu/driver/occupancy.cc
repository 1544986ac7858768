#include "softgpu/driver/occupancy.h"

#include <algorithm>

#include "checked_size.h"
#include "softgpu/driver/module.h"

namespace softgpu {

CUresult occupancy(KernelState* k, int threads, size_t dynamic_shared_bytes, int* blocks) {
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  uint64_t shared = (CheckedSize(k->compiled->static_shared_bytes) + dynamic_shared_bytes).value();
  int by_threads = threads > 1024 ? 0 : 1536 / threads,
      by_shared = shared ? (int)((100u << 10) / (CheckedSize(shared) + 1024).value()) : 24;
  *blocks = std::min({24, by_threads, by_shared});
  return CUDA_SUCCESS;
}

}  // namespace softgpu
