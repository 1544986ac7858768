// CUDA entry points: control of a profiler. The calls have no effect.
#include "softgpu/api/require.h"

using namespace softgpu;

API CUresult cuProfilerInitialize(const char*, const char*, int) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuProfilerStart(void) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return CUDA_SUCCESS;
}
API CUresult cuProfilerStop(void) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return CUDA_SUCCESS;
}
