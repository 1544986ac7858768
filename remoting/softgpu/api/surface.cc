// CUDA entry points: surface objects.
#include "softgpu/driver/surface.h"

#include <memory>

#include "softgpu/api/require.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* r) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!out || !r || r->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
  auto a = array_of(r->res.array.hArray);
  if (!a || !(a->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST)) return CUDA_ERROR_INVALID_VALUE;
  auto state = std::make_unique<SurfaceState>();
  state->resource = *r;
  add_handle(state.get());
  *out = (CUsurfObject)state.release();
  return CUDA_SUCCESS;
}

API CUresult cuSurfObjectDestroy(CUsurfObject h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  if (!h || !remove_handle((SurfaceState*)h)) return CUDA_ERROR_INVALID_VALUE;
  delete (SurfaceState*)h;
  return CUDA_SUCCESS;
}

API CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* r, CUsurfObject h) {
  if (!r || !driver() || !is_live((SurfaceState*)h)) return CUDA_ERROR_INVALID_VALUE;
  *r = ((SurfaceState*)h)->resource;
  return CUDA_SUCCESS;
}
