// CUDA entry points: attributes of pointers.
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/memory.h"

using namespace softgpu;

constexpr unsigned kMaxAttributes = 4096;  // of one call

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Allocation* a,
                                  CUdeviceptr p) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  bool host = a->kind == Allocation::host || a->kind == Allocation::registered;
  bool accessible = host || a->managed;  // by the host
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext*)data = (CUcontext)a->context;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)data = p; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!accessible) return CUDA_ERROR_INVALID_VALUE;
      *(void**)data = (void*)p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = a->id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)data = a->managed; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = a->ordinal; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = a->base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = a->bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver()->mutex);
  return pointer_attribute(data, which, find_allocation(p), p);
}

API CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data,
                                    CUdeviceptr p) {
  REQUIRE_DRIVER();
  if (!which || !data || n > kMaxAttributes) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  for (unsigned i = 0; i < n; ++i)
    if (!data[i])
      return CUDA_ERROR_INVALID_VALUE;
    else if (a)
      pointer_attribute(data[i], which[i], a, p);
  return CUDA_SUCCESS;
}

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS needs no action: copies are always ordered with other work.
API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_DRIVER();
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  bool on_device = a && a->kind != Allocation::host && a->kind != Allocation::registered;
  return value && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && on_device ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}
