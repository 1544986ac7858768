// What a pointer is: answered from the address map, without the node.
#include "client/session.h"

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) Context* c; if (CUresult r = require_context(c)) return r

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Region& r, CUdeviceptr p) {
  bool host = r.on_host() || r.kind == Region::managed;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext*)data = (CUcontext)r.context->handle; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned*)data = r.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)data = p; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: if (!host) return CUDA_ERROR_INVALID_VALUE; *(void**)data = (void*)p; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = r.id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)data = r.kind == Region::managed; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = r.context->device->ordinal; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = r.base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = r.bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
  CURRENT(c);
  (void)c;
  Region r = session()->addresses.find(p);
  return data && r.kind != Region::none ? pointer_attribute(data, which, r, p) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data, CUdeviceptr p) {
  CURRENT(c);
  (void)c;
  if (!which || !data) return CUDA_ERROR_INVALID_VALUE;
  Region r = session()->addresses.find(p);
  for (unsigned i = 0; i < n && r.kind != Region::none; ++i) pointer_attribute(data[i], which[i], r, p);
  return CUDA_SUCCESS;
}
