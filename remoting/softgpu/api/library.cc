// CUDA entry points: libraries and their kernels. A library is a module of the current device, or
// of device 0 without a context.
#include "softgpu/api/require.h"
#include "softgpu/driver/jit_options.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static bool is_refused(CUlibrary l) {
  return l && is_live((ModuleState*)l) && ((ModuleState*)l)->refused;
}

API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options,
                               void** values, unsigned n, CUlibraryOption*, void**, unsigned) {
  REQUIRE_DRIVER();
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current();
  ModuleState* m = nullptr;
  CUresult r = load_module(code, c ? c->device->ordinal : 0, n, options, values, m);
  if (r && r != CUDA_ERROR_INVALID_PTX) return r;
  if (r) {  // as NVIDIA's driver, which loads libraries when they are needed
    m = new ModuleState;
    m->refused = true;
    add_handle(m);
  }
  *out = (CUlibrary)m;
  return CUDA_SUCCESS;
}
API CUresult cuLibraryUnload(CUlibrary h) {
  REQUIRE_DRIVER();
  if (!h || !is_live((ModuleState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  if (Context* c = current()) wait_for_context(c);
  unload_module((ModuleState*)h);
  return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary l, const char* name) {
  if (is_refused(l)) return CUDA_ERROR_INVALID_PTX;
  return cuModuleGetFunction((CUfunction*)out, (CUmodule)l, name);
}
API CUresult cuLibraryGetGlobal(CUdeviceptr* p, size_t* bytes, CUlibrary l, const char* name) {
  if (is_refused(l)) return CUDA_ERROR_INVALID_PTX;
  return cuModuleGetGlobal(p, bytes, (CUmodule)l, name);
}
API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary l) {
  if (!is_live((ModuleState*)l)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (is_refused(l)) return CUDA_ERROR_INVALID_PTX;
  *out = (CUmodule)l;
  return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernelCount(unsigned* n, CUlibrary l) {
  if (is_refused(l)) return CUDA_ERROR_INVALID_PTX;
  return cuModuleGetFunctionCount(n, (CUmodule)l);
}
API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned n, CUlibrary l) {
  if (is_refused(l)) return CUDA_ERROR_INVALID_PTX;
  return cuModuleEnumerateFunctions((CUfunction*)out, n, (CUmodule)l);
}
API CUresult cuKernelGetFunction(CUfunction* out, CUkernel k) {
  if (!kernel_of((CUfunction)k)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUfunction)k;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel k) {
  KernelState* s = kernel_of((CUfunction)k);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUlibrary)s->module;
  return CUDA_SUCCESS;
}
