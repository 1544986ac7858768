// CUDA entry points: stream capture.
#include <mutex>
#include <thread>

#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/graph.h"

using namespace softgpu;

API CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData*, size_t n,
                                         CUstreamCaptureMode mode) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !dependencies) ||
      (g && !is_live((GraphState*)g)) || n > (g ? ((GraphState*)g)->nodes.size() : 0))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto** tail = (GraphNode**)dependencies;
  begin_capture(s, (GraphState*)g, {tail, tail + n}, mode);
  return CUDA_SUCCESS;
}
API CUresult cuStreamBeginCapture(CUstream h, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(h, nullptr, nullptr, nullptr, 0, mode);
}

API CUresult cuStreamEndCapture(CUstream h, CUgraph* out) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::lock_guard lock(c->mutex);
  auto capture = s->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != s) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult r = end_capture(*capture);
  if (r == CUDA_SUCCESS)
    *out = (CUgraph)capture->graph;
  else
    discard_graph(*capture);
  return r;
}

static CUstreamCaptureStatus status_of(const StreamState& s) {
  return !s.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
         : s.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

API CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* status) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  *status = status_of(*s);
  return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** tail,
                             const CUgraphEdgeData** edges, size_t* count) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  *status = status_of(*s);
  if (!s->capture) return CUDA_SUCCESS;
  if (id) *id = s->capture->id;
  if (graph) *graph = (CUgraph)s->capture->graph;
  if (tail) *tail = (const CUgraphNode*)s->tail.data();
  if (edges) {
    s->tail_edges.resize(s->tail.size());
    *edges = s->tail_edges.data();
  }
  if (count) *count = s->tail.size();
  return CUDA_SUCCESS;
}

#undef cuStreamGetCaptureInfo
API CUresult cuStreamGetCaptureInfo_v2(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** tail, size_t* count) {
  return capture_info(h, status, id, graph, tail, nullptr, count);
}
API CUresult cuStreamGetCaptureInfo_v3(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** tail,
                                       const CUgraphEdgeData** edges, size_t* count) {
  return capture_info(h, status, id, graph, tail, edges, count);
}

API CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode* nodes,
                                               const CUgraphEdgeData*, size_t n, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if ((n && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  if (!s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  for (size_t i = 0; i < n; ++i)
    if (auto* node = (GraphNode*)nodes[i]; !is_live(node) || node->graph != s->capture->graph)
      return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) s->tail.clear();
  for (size_t i = 0; i < n; ++i) s->tail.push_back((GraphNode*)nodes[i]);
  return CUDA_SUCCESS;
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}
