// CUDA entry points: pointer queries. They read the address map and need no round trip and no
// current context, because runtimes call them from threads without one.
#include "client/api/require.h"
#include "client/call.h"
#include "client/mapped.h"
#include "client/pool.h"
#include "pointer_attributes.h"

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

static Pool* pool_of(const Region& r) {
  return r.kind == Region::device ? pool_of(r.base) : nullptr;
}

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Region& r,
                                  CUdeviceptr p) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *(CUdeviceptr*)data = device_address(r, p);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(unsigned*)data = r.kind == Region::device && !pool_of(r) && r.context->device->heap;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(unsigned*)data =
          is_accessible(r) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      Pool* pool = pool_of(r);
      *(void**)data = pool ? pool->handle : nullptr;
      return CUDA_SUCCESS;
    }
    default: break;
  }
  PointerAttributes attributes{(CUcontext)r.context->handle,
                               r.context->device->ordinal,
                               r.base,
                               r.bytes,
                               r.id,
                               r.on_host(),
                               r.kind == Region::managed,
                               r.synchronous};
  return attributes.get(p, which, data);
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
    if (e) e = PointerAttributes::get_default(which[i], data[i]);
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
