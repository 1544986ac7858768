// CUDA entry points: mapped host memory.
#include "client/mapped.h"
#include "client/api/require.h"

using namespace busbar::client;

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned flags) {
  REQUIRE_CONTEXT(c);
  Region r = session()->addresses.find((uint64_t)p);
  if (!out || flags || !r.on_host()) return CUDA_ERROR_INVALID_VALUE;
  uint64_t device = 0;
  if (CUresult e = map_host_memory(r, c, device)) return e;
  *out = device + ((uint64_t)p - r.base);
  return CUDA_SUCCESS;
}
