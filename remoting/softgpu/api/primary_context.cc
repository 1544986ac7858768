// CUDA entry points: primary contexts of devices.
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/context_lifetime.h"

using namespace softgpu;

API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  static std::mutex retaining;
  std::lock_guard lock(retaining);
  if (!d->primary || d->primary->destroyed) {
    Context* c = create_context(d, d->primary_flags, true);
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    d->primary = c;
  }
  d->primary_references++;
  *out = (CUcontext)d->primary;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (d->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--d->primary_references == 0) destroy_context(d->primary);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (d->primary && !d->primary->destroyed) destroy_context(d->primary);
  d->primary_references = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  d->primary_flags = flags;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags, int* active) {
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (flags) *flags = d->primary_flags;
  if (active) *active = d->primary && !d->primary->destroyed;
  return CUDA_SUCCESS;
}
