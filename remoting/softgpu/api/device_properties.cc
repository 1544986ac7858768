// CUDA entry points: properties of devices that are no attributes.
#include "softgpu/api/require.h"
#include "softgpu/driver/array.h"

using namespace softgpu;

API CUresult cuDeviceGetProperties(CUdevprop* p, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = {};
  struct {
    int* value;
    CUdevice_attribute attribute;
  } const members[] = {
      {&p->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&p->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
      {&p->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
      {&p->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
      {&p->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
      {&p->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
      {&p->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
      {&p->sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
      {&p->totalConstantMemory, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
      {&p->SIMDWidth, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
      {&p->memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
      {&p->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
      {&p->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {&p->textureAlign, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
  };
  for (auto& m : members)
    if (CUresult r = cuDeviceGetAttribute(m.value, m.attribute, dev)) return r;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format format,
                                                unsigned channels, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  if (!width || !channel_bytes(format) || (channels != 1 && channels != 2 && channels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  *width = 1 << 28;
  return CUDA_SUCCESS;
}

// Contexts cannot be limited to some of the multiprocessors.
API CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

// All devices can access each other's memory.
API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice a,
                                     CUdevice b) {
  REQUIRE_DRIVER();
  if (!device_at(a) || !device_at(b)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || a == b || which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    return CUDA_ERROR_INVALID_VALUE;
  *value = which != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
           which <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
  return CUDA_SUCCESS;
}
