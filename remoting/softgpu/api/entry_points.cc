// CUDA entry points: cuGetProcAddress; and functions that generated code and the session server
// call.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softgpu/api/require.h"
#include "wire/entry_point.h"

using namespace softgpu;

API void busbar_per_thread_default(int on) {
  t_per_thread_default += on ? 1 : -1;
}
API int softgpu_fresh_memory_is_zero() {
  return 1;  // the session server need not clear new memory
}

API int refuse_call(const char* name, int result) {
  if (std::getenv("BUSBAR_SOFTGPU_VERBOSE"))
    std::fprintf(stderr, "software GPU: %s is not supported\n", name);
  return result;
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, found = false;
  for (unsigned i = 0; i < kEntryPointCount; ++i) {
    const EntryPoint& e = kEntryPoints[i];
    if (std::strcmp(e.base, symbol)) continue;
    found = true;
    if (e.version > version || e.version > kDriverVersion) continue;
    if (!e.per_thread || per_thread)
      *function = e.function;  // versions ascend; a per-thread form follows its plain one
  }
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : found   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
API CUresult cuGetExportTable(const void**, const CUuuid*) {
  return CUDA_ERROR_NOT_SUPPORTED;  // NVIDIA's internal tables
}
