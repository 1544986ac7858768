// CUDA entry points: properties of functions.
#include <algorithm>
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/occupancy.h"

using namespace softgpu;

API CUresult cuFuncLoad(CUfunction f) {
  REQUIRE_KERNEL_STATE(k, f);
  return compile_kernel(k, nullptr);
}
API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction f) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(k->mutex);
  *state = k->compiled ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction f) {
  if (!name || !f) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_KERNEL_STATE(k, f);
  *name = k->description.name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetName(const char** name, CUkernel f) {
  return cuFuncGetName(name, (CUfunction)f);
}

API CUresult cuFuncGetParamCount(CUfunction f, size_t* count) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = k->description.params.size();
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* bytes) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!offset || index >= k->description.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = k->description.params[index].offset;
  if (bytes) *bytes = k->description.params[index].bytes;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamInfo(CUkernel f, size_t index, size_t* offset, size_t* bytes) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  return cuFuncGetParamInfo((CUfunction)f, index, offset, bytes);
}

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction f) {
  REQUIRE_KERNEL_STATE(k, f);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
    *value = (int)k->description.max_threads;
    return CUDA_SUCCESS;
  }
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    *value = k->dynamic_shared_limit;
    return CUDA_SUCCESS;
  }
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = (int)k->compiled->static_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = (int)k->compiled->local_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = (int)k->compiled->constant_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value =
          (int)std::clamp<uint64_t>(k->compiled->registers, 8, (uint64_t)k->module->max_registers);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: {
      const DeviceConfig& d = device_at(k->module->ordinal)->engine->config();
      // NOLINTNEXTLINE(custom-unchecked-product): the version of an architecture
      *value = (int)(d.compute_major * 10 + d.compute_minor);
      return CUDA_SUCCESS;
    }
    default:
      if ((int)which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = k->attributes[(size_t)which];
      return CUDA_SUCCESS;
  }
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel f, CUdevice) {
  return cuFuncGetAttribute(value, which, (CUfunction)f);
}

// Returns the largest value that a program can set; negative for an attribute that it cannot set.
static int largest_value(CUfunction_attribute which) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return 99 << 10;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return 100;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return (int)kMaxClusterBlocks;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return 1;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
    default: return -1;
  }
}

API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  REQUIRE_KERNEL_STATE(k, f);
  int least = which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                  ? (int)CU_SHAREDMEM_CARVEOUT_DEFAULT
                  : 0;
  if (value < least || value > largest_value(which)) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    k->dynamic_shared_limit = value;
  else
    k->attributes[(size_t)which] = value;
  return CUDA_SUCCESS;
}
API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel f, CUdevice) {
  return cuFuncSetAttribute((CUfunction)f, which, value);
}
API CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  REQUIRE_KERNEL_STATE(k, f);
  (void)k;
  return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config) {
  REQUIRE_KERNEL_STATE(k, f);
  (void)k;
  return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuKernelSetCacheConfig(CUkernel f, CUfunc_cache config, CUdevice) {
  REQUIRE_KERNEL_STATE(k, (CUfunction)f);
  (void)k;
  return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
