// CUDA entry points: properties of functions.
#include "client/function.h"

#include "client/api/require.h"
#include "client/library.h"
#include "client/wrapped_calls.h"

using namespace busbar::client;

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction h) {
  REQUIRE_FUNCTION(f, h);
  if (!value || (int)which < 0 || (int)which >= busbar::wire::kFunctionAttributes)
    return CUDA_ERROR_INVALID_VALUE;
  *value = f->attributes[which];
  return (CUresult)f->attribute_status[which];
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel k, CUdevice) {
  return cuFuncGetAttribute(value, which, (CUfunction)k);
}
// Launches are checked against the copies of the attributes.
API CUresult cuFuncSetAttribute(CUfunction h, CUfunction_attribute which, int value) {
  if (CUresult r = send_cuFuncSetAttribute(h, which, value)) return r;
  REQUIRE_FUNCTION(f, h);
  if ((int)which < busbar::wire::kFunctionAttributes) f->attributes[which] = value;
  return CUDA_SUCCESS;
}
API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel k, CUdevice) {
  return cuFuncSetAttribute((CUfunction)k, which, value);
}

API CUresult cuFuncGetParamInfo(CUfunction h, size_t index, size_t* offset, size_t* bytes) {
  REQUIRE_FUNCTION(f, h);
  if (!offset || index >= f->layout.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = f->layout[index].offset;
  if (bytes) *bytes = f->layout[index].bytes;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo((CUfunction)k, index, offset, bytes);
}

API CUresult cuFuncGetModule(CUmodule* out, CUfunction h) {
  REQUIRE_FUNCTION(f, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmodule)f->module->handle;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction h) {
  if (!name || !h) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_FUNCTION(f, h);
  *name = f->name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuFuncLoad(CUfunction h) {
  REQUIRE_FUNCTION(f, h);
  (void)f;
  return CUDA_SUCCESS;  // a function is loaded with its handle
}
API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction h) {
  REQUIRE_FUNCTION(f, h);
  (void)f;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

API CUresult cuFuncGetParamCount(CUfunction h, size_t* count) {
  REQUIRE_FUNCTION(f, h);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = f->layout.size();
  return CUDA_SUCCESS;
}
API CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice) {
  return cuFuncSetCacheConfig((CUfunction)k, config);
}
