// CUDA entry points: arrays of one to three dimensions.
#include <memory>

#include "softgpu/api/require.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

constexpr uint64_t kMaxRows = 65536, kMaxSlices = 16384, kMaxPitch = 32ull << 20;

API CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out || !d || !d->Width || !channel_bytes(d->Format) ||
      (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  if (d->Flags & ~(unsigned)(CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER))
    return CUDA_ERROR_NOT_SUPPORTED;
  auto a = std::make_unique<ArrayState>();
  a->descriptor = *d;
  a->ordinal = c->device->ordinal;
  if (a->rows() > kMaxRows || a->slices() > kMaxSlices || !a->pitch().within(kMaxPitch))
    return CUDA_ERROR_INVALID_VALUE;
  a->bytes = (a->pitch() * a->rows() * a->slices()).rounded_up(4096).value();
  if (!c->device->engine->charge(a->bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  a->base = map_private(a->bytes);
  if (!a->base) {
    c->device->engine->refund(a->bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  add_handle(a.get());
  *out = (CUarray)a.release();
  return CUDA_SUCCESS;
}

API CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate(out, &full);
}

API CUresult cuArrayDestroy(CUarray h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  auto* a = (ArrayState*)h;
  if (!a || !remove_handle(a)) return CUDA_ERROR_INVALID_HANDLE;
  unmap_private(a->base, a->bytes);
  device_at(a->ordinal)->engine->refund(a->bytes);
  delete a;
  return CUDA_SUCCESS;
}

API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray h) {
  REQUIRE_DRIVER();
  auto* a = array_of(h);
  if (!d || !a) return CUDA_ERROR_INVALID_HANDLE;
  *d = a->descriptor;
  return CUDA_SUCCESS;
}
API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray h) {
  REQUIRE_DRIVER();
  auto* a = array_of(h);
  if (!d || !a) return CUDA_ERROR_INVALID_HANDLE;
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
