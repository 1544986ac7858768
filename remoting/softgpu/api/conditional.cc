// CUDA entry points: values of conditional nodes.
#include <memory>

#include "softgpu/api/require.h"
#include "softgpu/device/conditions.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/graph.h"

using namespace softgpu;

API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph h, CUcontext ctx,
                                            unsigned value, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  auto* g = (GraphState*)h;
  if (!out || !g || !is_live(g) || flags > CU_GRAPH_COND_ASSIGN_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  if (ctx && !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  *out = make_condition(value);
  g->conditions.push_back(
      {*out, value, flags == CU_GRAPH_COND_ASSIGN_DEFAULT,
       std::shared_ptr<void>(g, [handle = *out](void*) { delete_condition(handle); })});
  return CUDA_SUCCESS;
}
