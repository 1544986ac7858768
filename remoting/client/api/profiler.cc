// CUDA entry points: control of a profiler. There is none in the client.
#include "client/api/require.h"

using namespace busbar::client;

// Drivers since 12.0 return this too. Old programs link the function.
API CUresult cuProfilerInitialize(const char*, const char*, int) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuProfilerStart(void) {
  Context* c;
  return require_context(c);
}
API CUresult cuProfilerStop(void) {
  Context* c;
  return require_context(c);
}
