// CUDA entry points: user objects.
#include "client/user_object.h"
#include "client/api/require.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy,
                                unsigned references, unsigned flags) {
  REQUIRE_SESSION;
  if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *out = create_user_object(data, destroy, references);
  return CUDA_SUCCESS;
}
API CUresult cuUserObjectRetain(CUuserObject h, unsigned count) {
  REQUIRE_SESSION;
  return retain_user_object(h, count);
}
API CUresult cuUserObjectRelease(CUuserObject h, unsigned count) {
  REQUIRE_SESSION;
  return release_user_object(h, count);
}
API CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject h, unsigned count, unsigned flags) {
  REQUIRE_SESSION;
  if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE || !home_of(ObjectKind::graph, (uint64_t)g).link)
    return CUDA_ERROR_INVALID_VALUE;
  return retain_user_object_by_graph(g, h, count, flags & CU_GRAPH_USER_OBJECT_MOVE);
}
API CUresult cuGraphReleaseUserObject(CUgraph g, CUuserObject h, unsigned count) {
  REQUIRE_SESSION;
  return release_user_object_by_graph(g, h, count);
}
