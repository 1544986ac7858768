// CUDA entry points: arrays of one to three dimensions, and mipmapped arrays.
#include "softgpu/driver/array.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  REQUIRE_CURRENT_CONTEXT(c);
  return out && d ? create_array(c, *d, out) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate(out, &full);
}

API CUresult cuArrayDestroy(CUarray a) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  return destroy_array(a);
}

API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                    unsigned levels) {
  REQUIRE_CURRENT_CONTEXT(c);
  return out && d ? create_mipmap(c, *d, levels, out) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMipmappedArrayDestroy(CUmipmappedArray m) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  return destroy_mipmap(m);
}

API CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray h, unsigned level) {
  REQUIRE_DRIVER();
  uint32_t levels = level_count(h);
  if (!levels) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || level >= levels) return CUDA_ERROR_INVALID_VALUE;
  *out = level_of(h, level);
  return CUDA_SUCCESS;
}

API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray h) {
  REQUIRE_DRIVER();
  auto a = array_of(h);
  if (!a) return CUDA_ERROR_INVALID_HANDLE;
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  *d = a->descriptor;
  return CUDA_SUCCESS;
}
API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray h) {
  REQUIRE_DRIVER();
  auto a = array_of(h);
  if (!a) return CUDA_ERROR_INVALID_HANDLE;
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  *d = {a->descriptor.Width, a->descriptor.Height, a->descriptor.Format, a->descriptor.NumChannels};
  return CUDA_SUCCESS;
}

// Arrays have one plane, memory from their creation on, and are not sparse.
API CUresult cuArrayGetPlane(CUarray* out, CUarray h, unsigned) {
  REQUIRE_DRIVER();
  return out && !array_of(h) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray h,
                                          CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  return out && !array_of(h) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray h) {
  REQUIRE_DRIVER();
  return out && !array_of(h) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                   CUmipmappedArray h, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  return out && !level_count(h) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out,
                                                 CUmipmappedArray h) {
  REQUIRE_DRIVER();
  return out && !level_count(h) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}
