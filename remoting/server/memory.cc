#include "server/memory.h"

#include "checked_size.h"

namespace busbar::server {

namespace {
constexpr uint64_t kPageBytes = 4096, kBlockBytes = 2 << 20, kMaxSharedBytes = 1 << 20;
}

uint64_t allocation_charge(const Driver& cu, uint64_t bytes) {
  bool has_blocks = !cu.software && bytes > kMaxSharedBytes;
  return CheckedSize(bytes).rounded_up(has_blocks ? kBlockBytes : kPageBytes).value();
}

CUresult clear_mapped(Driver& cu, uint64_t at, uint64_t bytes) {
  if (cu.fresh_memory_is_zero) return CUDA_SUCCESS;
  CUstream own;
  if (CUresult r = cu.cuStreamCreateWithPriority(&own, CU_STREAM_NON_BLOCKING, 0)) return r;
  CUresult r = cu.cuMemsetD8Async(at, 0, bytes, own);
  if (!r) r = cu.cuStreamSynchronize(own);
  cu.cuStreamDestroy(own);
  return r;
}

}  // namespace busbar::server
