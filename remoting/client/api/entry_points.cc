// CUDA entry points: cuGetProcAddress.
#include "wire/entry_point.h"

#include <cuda.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "export.h"

API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  // Rows of a name stand in ascending order of version.
  static const auto* rows = [] {
    auto* m = new std::unordered_map<std::string, std::vector<const EntryPoint*>>;
    for (unsigned i = 0; i < kEntryPointCount; ++i)
      (*m)[kEntryPoints[i].base].push_back(&kEntryPoints[i]);
    return m;
  }();
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto it = rows->find(symbol);
  if (it != rows->end())
    for (auto* e : it->second)
      if (e->version <= version && (!e->per_thread || per_thread)) *function = e->function;
  if (status)
    *status = *function           ? CU_GET_PROC_ADDRESS_SUCCESS
              : it != rows->end() ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
