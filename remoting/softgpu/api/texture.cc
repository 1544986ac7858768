// CUDA entry points: texture objects.
#include <memory>

#include "softgpu/api/require.h"
#include "softgpu/driver/stream_queue.h"
#include "softgpu/driver/texture.h"

using namespace softgpu;

API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* r,
                               const CUDA_TEXTURE_DESC* t, const CUDA_RESOURCE_VIEW_DESC* view) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!out || !r || !t) return CUDA_ERROR_INVALID_VALUE;
  if (view) return CUDA_ERROR_NOT_SUPPORTED;
  auto state = std::make_unique<TextureState>();
  state->resource = *r;
  state->description = *t;
  if (CUresult e = check_texture(*state)) return e;
  add_handle(state.get());
  *out = (CUtexObject)state.release();
  return CUDA_SUCCESS;
}

API CUresult cuTexObjectDestroy(CUtexObject h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  if (!h || !remove_handle((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  delete (TextureState*)h;
  return CUDA_SUCCESS;
}
API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* r, CUtexObject h) {
  if (!r || !driver() || !is_live((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  *r = ((TextureState*)h)->resource;
  return CUDA_SUCCESS;
}
API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* t, CUtexObject h) {
  if (!t || !driver() || !is_live((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  *t = ((TextureState*)h)->description;
  return CUDA_SUCCESS;
}
// No texture has a resource view.
API CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC*, CUtexObject) {
  REQUIRE_DRIVER();
  return CUDA_ERROR_INVALID_VALUE;
}
