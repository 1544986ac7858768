// CUDA entry points: pinned and registered host memory.
#include <mutex>

#include "mapped_pages.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  if (!out || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  return allocate_host_memory(c, bytes, flags, out);
}
API CUresult cuMemAllocHost(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}

API CUresult cuMemFreeHost(void* p) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find((uint64_t)p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::host)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult r = wait_for_context(c)) return r;
  return release_memory((uint64_t)p);
}

API CUresult cuMemHostRegister(void* p, size_t bytes, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!p || !bytes || flags > 15 || !busbar::is_mapped(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  if (find_allocation((uint64_t)p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  d->allocations[(uint64_t)p] = {Allocation::registered, (uint64_t)p, bytes, 0, c, flags,
                                 c->device->ordinal,     d->next_id++};
  return CUDA_SUCCESS;
}

API CUresult cuMemHostUnregister(void* p) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  auto it = d->allocations.find((uint64_t)p);
  if (it == d->allocations.end() || it->second.kind != Allocation::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  d->allocations.erase(it);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation((uint64_t)p);
  if (!out || flags || !a || (a->kind != Allocation::host && a->kind != Allocation::registered))
    return CUDA_ERROR_INVALID_VALUE;
  *out = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation((uint64_t)p);
  if (!flags || !a || a->kind != Allocation::host) return CUDA_ERROR_INVALID_VALUE;
  *flags = a->flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addressing all is mapped
  return CUDA_SUCCESS;
}
