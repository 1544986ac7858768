// CUDA entry points: managed memory. It is device memory, which the host can access too.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/memory.h"

using namespace softgpu;

constexpr size_t kMaxAttributes = 4096;      // of one call
constexpr size_t kMaxAttributeBytes = 4096;  // a list with the ordinals of devices

API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = cuMemAlloc(out, bytes)) return r;
  std::lock_guard lock(driver()->mutex);
  driver()->allocations[*out].managed = true;
  return CUDA_SUCCESS;
}

// Hints move pages earlier. They do not move here, so hints have no effect.
static CUresult check_managed(CUdeviceptr p, size_t n) {
  REQUIRE_DRIVER();
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = n ? find_allocation(p) : nullptr;
  bool inside = a && a->managed && (CheckedSize(p) + n).within(CheckedSize(a->base) + a->bytes);
  return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#undef cuMemPrefetchAsync
#undef cuMemAdvise
API CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation, unsigned flags,
                                   CUstream h) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  return flags ? CUDA_ERROR_INVALID_VALUE : check_managed(p, n);
}
API CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice, CUstream s) {
  return cuMemPrefetchAsync_v2(p, n, {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0, s);
}
API CUresult cuMemAdvise_v2(CUdeviceptr p, size_t n, CUmem_advise advice, CUmemLocation) {
  return advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY
             ? CUDA_ERROR_INVALID_VALUE
             : check_managed(p, n);
}
API CUresult cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice) {
  return cuMemAdvise_v2(p, n, advice, {});
}
API CUresult cuStreamAttachMemAsync(CUstream h, CUdeviceptr p, size_t n, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  return check_managed(p, n ? n : 1);
}

API CUresult cuMemRangeGetAttribute(void* data, size_t bytes, CUmem_range_attribute which,
                                    CUdeviceptr p, size_t n) {
  if (CUresult r = check_managed(p, n)) return r;
  if (!data || bytes < 4 || bytes > kMaxAttributeBytes) return CUDA_ERROR_INVALID_VALUE;
  std::memset(data, 0, bytes);
  if (which == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
      which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
    *(int*)data = CU_DEVICE_INVALID;
  if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    std::fill_n((int*)data, bytes / 4, (int)CU_DEVICE_INVALID);
  return CUDA_SUCCESS;
}
API CUresult cuMemRangeGetAttributes(void** data, size_t* bytes, CUmem_range_attribute* which,
                                     size_t count, CUdeviceptr p, size_t n) {
  if (!data || !bytes || !which || !count || count > kMaxAttributes)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (CUresult r = cuMemRangeGetAttribute(data[i], bytes[i], which[i], p, n)) return r;
  return CUDA_SUCCESS;
}
