// CUDA entry points: limits and preferences of contexts.
#include <mutex>

#include "checked_size.h"
#include "softgpu/api/require.h"

using namespace softgpu;

API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if ((unsigned)limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = c->limits[limit];
  return CUDA_SUCCESS;
}
// The default heap belongs to the context; more is charged to the device.
static CUresult limit_heap(DeviceState* d, uint64_t bytes) {
  uint64_t extra = bytes > KernelHeap::kDefaultBytes ? bytes - KernelHeap::kDefaultBytes : 0;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (extra > d->heap_bytes && !d->engine->charge(extra - d->heap_bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool fits = d->runner->heap().limit(bytes);
  uint64_t charged = std::max(extra, d->heap_bytes), needed = fits ? extra : d->heap_bytes;
  d->engine->refund(charged - needed);
  d->heap_bytes = needed;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  REQUIRE_CURRENT_CONTEXT(c);
  if ((unsigned)limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
    if (CUresult r = limit_heap(c->device, CheckedSize(value).rounded_up(4096).value())) return r;
  c->limits[limit] = value;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuCtxResetPersistingL2Cache(void) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return CUDA_SUCCESS;
}
