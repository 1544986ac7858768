// CUDA entry points: host functions on streams.
#include "softgpu/api/require.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuLaunchHostFunc(CUstream h, CUhostFn f, void* data) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host.fn = f;
  params.host.userData = data;
  enqueue(
      s,
      [=] {
        f(data);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return CUDA_SUCCESS;
}

API CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* data, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  if (!f || flags) return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    f(h, CUDA_SUCCESS, data);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}
