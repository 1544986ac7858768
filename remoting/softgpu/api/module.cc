// CUDA entry points: modules.
#include <string>

#include "softgpu/api/require.h"
#include "softgpu/driver/jit_options.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned n, CUjit_option* options,
                                void** values) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  ModuleState* m = nullptr;
  if (CUresult r = load_module(image, c->device->ordinal, n, options, values, m)) return r;
  *out = (CUmodule)m;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

API CUresult cuModuleUnload(CUmodule h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!h || !is_live((ModuleState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = wait_for_context(c)) return r;
  unload_module((ModuleState*)h);
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

static CUresult find_kernel(void* module, const char* name, void** out) {
  REQUIRE_DRIVER();
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  auto* m = (ModuleState*)module;
  if (!m || !is_live(m)) return CUDA_ERROR_INVALID_HANDLE;
  auto it = m->kernels.find(name);
  if (it == m->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = it->second.get();
  return CUDA_SUCCESS;
}

static CUresult find_global(void* module, const char* name, CUdeviceptr* p, size_t* bytes) {
  REQUIRE_DRIVER();
  auto* m = (ModuleState*)module;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!m || !is_live(m)) return CUDA_ERROR_INVALID_HANDLE;
  auto it = m->globals.find(name);
  if (it == m->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (p) *p = it->second.address;
  if (bytes) *bytes = it->second.bytes;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction* out, CUmodule m, const char* name) {
  return find_kernel(m, name, (void**)out);
}
API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule m, const char* name) {
  return find_global(m, name, p, bytes);
}
API CUresult cuModuleGetFunctionCount(unsigned* n, CUmodule m) {
  if (!is_live((ModuleState*)m)) return CUDA_ERROR_INVALID_HANDLE;
  if (!n) return CUDA_ERROR_INVALID_VALUE;
  *n = (unsigned)((ModuleState*)m)->order.size();
  return CUDA_SUCCESS;
}
API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned n, CUmodule m) {
  if (!is_live((ModuleState*)m)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto& o = ((ModuleState*)m)->order;
  for (unsigned i = 0; i < n && i < o.size(); ++i) out[i] = (CUfunction)o[i];
  return CUDA_SUCCESS;
}

API CUresult cuFuncGetModule(CUmodule* out, CUfunction f) {
  KernelState* s = kernel_of(f);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmodule)s->module;
  return CUDA_SUCCESS;
}
