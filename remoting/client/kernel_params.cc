#include "client/kernel_params.h"

#include "checked_size.h"

namespace busbar::client {

bool valid_geometry(const Device* d, const Function* f, const CUlaunchConfig& c) {
  auto limit = [&](CUdevice_attribute a) {
    return (unsigned)d->attributes[a];
  };
  if (!c.gridDimX || !c.gridDimY || !c.gridDimZ || !c.blockDimX || !c.blockDimY || !c.blockDimZ)
    return false;
  if (c.gridDimX > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      c.gridDimY > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      c.gridDimZ > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z))
    return false;
  if (c.blockDimX > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      c.blockDimY > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
      c.blockDimZ > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z))
    return false;
  if (volume(c.blockDimX, c.blockDimY, c.blockDimZ) >
      (unsigned)f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
    return false;
  return c.sharedMemBytes <=
         (unsigned)f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
}

// Reads the `extra` form: pairs of a key and a pointer.
static CUresult read_extra(void** extra, const void*& buffer, size_t& bytes) {
  for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = e[1];
    else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *(size_t*)e[1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return buffer && bytes <= kMaxParameterBytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult resolve_params(const Function* f, void** pointers, void** extra, KernelParams& out) {
  if (pointers && extra) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = f->parameter_bytes;
  if (extra) {
    if (CUresult r = read_extra(extra, out.buffer, bytes)) return r;
  } else if (!pointers && f->parameter_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes < f->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  out.pointers = pointers;
  out.bytes = (uint32_t)bytes;
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
