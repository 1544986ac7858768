// CUDA entry points: attributes of pointers.
#include <mutex>
#include <optional>

#include "pointer_attributes.h"
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

static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Allocation& a,
                                  CUdeviceptr p) {
  bool on_host = a.kind == Allocation::host || a.kind == Allocation::registered;
  CUdevice device = a.ordinal;
  bool accessible = on_host || a.managed || cuCtxGetDevice(&device) || device == a.ordinal;
  Pool* pool = pool_of(a.base);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(unsigned*)data = a.kind == Allocation::device && !a.managed && !pool;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(unsigned*)data =
          accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(Pool**)data = pool; return CUDA_SUCCESS;
    default: break;
  }
  busbar::PointerAttributes attributes{
      (CUcontext)a.context, a.ordinal, a.base, a.bytes, a.id, on_host, a.managed, a.synchronous};
  return attributes.get(p, which, data);
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
  for (unsigned i = 0; i < n; ++i) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    CUresult e = a ? pointer_attribute(data[i], which[i], *a, p) : CUDA_ERROR_INVALID_VALUE;
    if (e) e = busbar::PointerAttributes::get_default(which[i], data[i]);
    if (e) return e;
  }
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
