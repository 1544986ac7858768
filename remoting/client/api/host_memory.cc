// CUDA entry points: pinned and registered host memory.
#include "client/api/require.h"
#include "client/capture.h"
#include "client/host_mirror_count.h"
#include "client/mapped.h"
#include "client/pinned_memory.h"
#include "mapped_pages.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  REQUIRE_CONTEXT(c);
  REQUIRE_CAPTURE_SAFE;
  if (!out || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  void* p = allocate_pinned(bytes);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  session()->addresses.add({Region::pinned, (uint64_t)p, bytes, 0, c, flags});
  *out = p;
  return CUDA_SUCCESS;
}
API CUresult cuMemAllocHost(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}

API CUresult cuMemFreeHost(void* p) {
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  REQUIRE_CAPTURE_SAFE;
  Region r;
  if (!session()->addresses.remove((uint64_t)p, Region::pinned, &r))
    return CUDA_ERROR_INVALID_VALUE;
  // Copies in progress may still write to the memory.
  for (Context* c : session()->contexts.all())
    if (!c->destroyed) synchronize(c);  // others have no work, or were never active
  unmap_host_memory(p);
  free_pinned(p, r.bytes);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostRegister(void* p, size_t bytes, unsigned flags) {
  REQUIRE_CONTEXT(c);
  if (!p || !bytes || flags > 15 || !is_mapped(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (session()->addresses.find((uint64_t)p).kind != Region::none)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  session()->addresses.add({Region::registered, (uint64_t)p, bytes, 0, c, flags});
  return CUDA_SUCCESS;
}

API CUresult cuMemHostUnregister(void* p) {
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  Region r;
  if (!session()->addresses.remove((uint64_t)p, Region::registered, &r))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  CUresult status = synchronize(r.context);
  if (!status && has_host_mirrors()) status = fetch_mapped(r.context);
  unmap_host_memory(p);
  return status;
}

API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
  REQUIRE_CONTEXT(c);
  (void)c;
  Region r = session()->addresses.find((uint64_t)p);
  if (!flags || r.kind != Region::pinned) return CUDA_ERROR_INVALID_VALUE;
  *flags = r.flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addressing all is mapped
  return CUDA_SUCCESS;
}
