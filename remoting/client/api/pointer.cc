// CUDA entry points: pointer queries. They read the address map and need no round trip and no
// current context, because runtimes call them from threads without one.
#include "client/api/require.h"
#include "client/call.h"
#include "client/mapped.h"
#include "client/pool.h"

using namespace busbar;
using namespace busbar::client;

// Return the device address of an address. That of host memory differs if it has a device copy
// elsewhere.
static CUdeviceptr device_address(const Region& r, CUdeviceptr p) {
  uint64_t mapped = r.on_host() && has_host_mirrors() ? mapped_address(p) : 0;
  return mapped ? mapped : p;
}

// Return whether the device of the current context, if there is one, can access the memory.
static bool is_accessible(const Region& r) {
  Context* current = current_context();
  return r.on_host() || r.kind == Region::managed || !current ||
         current->device == r.context->device;
}

// Fills in what belongs to the memory behind an address.
static CUresult memory_attribute(void* data, CUpointer_attribute which, const Region& r) {
  Pool* pool = r.kind == Region::device ? pool_of(r.base) : nullptr;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned*)data = r.synchronous; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(unsigned*)data = r.kind == Region::device && !pool && r.context->device->heap;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(uint64_t*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL: *(int*)data = -1; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *(unsigned*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(unsigned*)data =
          is_accessible(r) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *(void**)data = pool ? pool->handle : nullptr;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t*)data = r.bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr*)data = r.base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *(unsigned long long*)data = r.id;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Region& r,
                                  CUdeviceptr p) {
  bool host = r.on_host() || r.kind == Region::managed;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext*)data = (CUcontext)r.context->handle;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)data = r.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *(CUdeviceptr*)data = device_address(r, p);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host) return CUDA_ERROR_INVALID_VALUE;
      *(void**)data = (void*)p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = r.id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *(unsigned*)data = r.kind == Region::managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int*)data = r.context->device->ordinal;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = r.base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = r.bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; return CUDA_SUCCESS;
    default: return memory_attribute(data, which, r);
  }
}

// Fills in the driver's values for an attribute that an address does not have.
static CUresult default_attribute(void* data, CUpointer_attribute which) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = CU_DEVICE_INVALID; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(uint64_t*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL: *(int*)data = -1; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_SESSION;
  Region r = session()->addresses.find(p);
  return data && r.kind != Region::none ? pointer_attribute(data, which, r, p)
                                        : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data,
                                    CUdeviceptr p) {
  REQUIRE_SESSION;
  if (!which || !data || n > kMaxElements) return CUDA_ERROR_INVALID_VALUE;
  Region r = session()->addresses.find(p);
  for (unsigned i = 0; i < n; ++i) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    CUresult e = r.kind == Region::none ? CUDA_ERROR_INVALID_VALUE
                                        : pointer_attribute(data[i], which[i], r, p);
    if (e) e = default_attribute(data[i], which[i]);
    if (e) return e;
  }
  return CUDA_SUCCESS;
}

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS needs no action: copies are always ordered with other work.
API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr p) {
  REQUIRE_SESSION;
  return value && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
                 session()->addresses.set_synchronous(p, *(const unsigned*)value)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
