// CUDA entry points: arrays and mipmapped arrays.
#include "client/array.h"

#include "array_element.h"
#include "client/api/require.h"
#include "client/capture.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  if (!out || !d) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  if (CUresult r = create_array(ObjectKind::array, *d, 0, created)) return r;
  *out = (CUarray)created;
  return CUDA_SUCCESS;
}
API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape{d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate_v2(out, &shape);
}
API CUresult cuArrayDestroy(CUarray a) {
  REQUIRE_CAPTURE_SAFE;
  return destroy_array(ObjectKind::array, (uint64_t)a);
}
API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                    unsigned levels) {
  if (!out || !d) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  levels = mipmap_levels(*d, levels);
  if (CUresult r = create_array(ObjectKind::mipmap, *d, levels, created)) return r;
  *out = (CUmipmappedArray)created;
  return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayDestroy(CUmipmappedArray a) {
  return destroy_array(ObjectKind::mipmap, (uint64_t)a);
}
