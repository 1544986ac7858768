// CUDA entry points: objects of the program that graphs keep alive.
#include <climits>

#include "softgpu/api/require.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/user_object.h"

using namespace softgpu;

API CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                                unsigned references, unsigned flags) {
  REQUIRE_DRIVER();
  if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto* o = new UserObject{pointer, destroy, references};
  add_handle(o);
  *out = (CUuserObject)o;
  return CUDA_SUCCESS;
}

API CUresult cuUserObjectRetain(CUuserObject h, unsigned count) {
  REQUIRE_LIVE(UserObject, o, h);
  retain_object(o, count);
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuUserObjectRelease(CUuserObject h, unsigned count) {
  REQUIRE_LIVE(UserObject, o, h);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  release_object(o, count);
  return CUDA_SUCCESS;
}

API CUresult cuGraphRetainUserObject(CUgraph hg, CUuserObject h, unsigned count, unsigned flags) {
  REQUIRE_LIVE(GraphState, g, hg);
  REQUIRE_LIVE(UserObject, o, h);
  if (!count || count > INT_MAX || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  hold_object(o, count, flags & CU_GRAPH_USER_OBJECT_MOVE);
  count_of(g->objects, o) += count;
  return CUDA_SUCCESS;
}

API CUresult cuGraphReleaseUserObject(CUgraph hg, CUuserObject h, unsigned count) {
  REQUIRE_LIVE(GraphState, g, hg);
  REQUIRE_LIVE(UserObject, o, h);
  uint64_t& held = count_of(g->objects, o);
  bool valid = count && held >= count;
  if (valid) held -= count;
  std::erase_if(g->objects, [](auto& entry) { return !entry.second; });
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  drop_objects({{o, count}});
  return CUDA_SUCCESS;
}
