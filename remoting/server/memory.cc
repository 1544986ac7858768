#include "server/memory.h"

namespace busbar::server {

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
