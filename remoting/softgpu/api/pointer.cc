// CUDA entry points: attributes of pointers.
#include <mutex>
#include <optional>

#include "softgpu/api/require.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/pool.h"

using namespace softgpu;

constexpr unsigned kMaxAttributes = 4096;  // of one call

// Return a copy of the allocation that contains an address, if there is one.
static std::optional<Allocation> allocation_at(CUdeviceptr p) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  return a ? std::optional(*a) : std::nullopt;
}

// Fills in what belongs to the memory behind an address.
static CUresult memory_attribute(void* data, CUpointer_attribute which, const Allocation& a,
                                 bool accessible) {
  Pool* pool = pool_of(a.base);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned*)data = a.synchronous; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(unsigned*)data = a.kind == Allocation::device && !a.managed && !pool;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(uint64_t*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL: *(int*)data = -1; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *(unsigned*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(unsigned*)data =
          accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(Pool**)data = pool; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t*)data = a.bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr*)data = a.base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *(unsigned long long*)data = a.id;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Allocation& a,
                                  CUdeviceptr p) {
  bool host = a.kind == Allocation::host || a.kind == Allocation::registered;
  bool on_host = host || a.managed;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext*)data = (CUcontext)a.context;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)data = p; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host) return CUDA_ERROR_INVALID_VALUE;
      *(void**)data = (void*)p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = a.id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)data = a.managed; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = a.ordinal; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = a.base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = a.bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; return CUDA_SUCCESS;
    default: break;
  }
  CUdevice device = a.ordinal;
  return memory_attribute(data, which, a,
                          on_host || cuCtxGetDevice(&device) || device == a.ordinal);
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  auto a = allocation_at(p);
  return data && a ? pointer_attribute(data, which, *a, p) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data,
                                    CUdeviceptr p) {
  REQUIRE_DRIVER();
  if (!which || !data || n > kMaxAttributes) return CUDA_ERROR_INVALID_VALUE;
  auto a = allocation_at(p);
  for (unsigned i = 0; i < n; ++i)
    if (!data[i])
      return CUDA_ERROR_INVALID_VALUE;
    else if (a)
      pointer_attribute(data[i], which[i], *a, p);
  return CUDA_SUCCESS;
}

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS needs no action: copies are always ordered with other work.
API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_DRIVER();
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  bool on_device = a && a->kind != Allocation::host && a->kind != Allocation::registered;
  if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !on_device)
    return CUDA_ERROR_INVALID_VALUE;
  driver()->allocations[a->base].synchronous = *(const unsigned*)value;
  return CUDA_SUCCESS;
}
