// CUDA entry points: stream capture.
#include "checked_size.h"
#include "client/api/captured_node.h"
#include "client/api/require.h"
#include "client/call.h"
#include "wire/growing_encoder.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, size_t n,
                                         CUstreamCaptureMode mode) {
  Call call;
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  uint64_t element_bytes = sizeof *dependencies + (edges ? sizeof *edges : 0);
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !dependencies) || n > kMaxElements ||
      !(CheckedSize(n) * element_bytes).within(kMaxArrayBytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = call.begin(h)) return r;
  if (g && !call.select_node_of(ObjectKind::graph, (uint64_t)g)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = begin_capture(*s, g, mode)) return r;
  wire::GrowingEncoder e(wire::Op::begin_capture, c->id, s->id);
  e.put(call.reply_id()).put((uint64_t)g).put((uint32_t)n).put((uint32_t)(edges != nullptr));
  if (n) e.raw(dependencies, (CheckedSize(n) * sizeof *dependencies).value());
  if (n && edges) e.raw(edges, (CheckedSize(n) * sizeof *edges).value());
  call.send_and_wait(e.finish(), e.size());
  if (call.status()) cancel_capture(*s);
  return call.status();
}
API CUresult cuStreamBeginCapture_v2(CUstream h, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(h, nullptr, nullptr, nullptr, 0, mode);
}
API CUresult cuStreamEndCapture(CUstream h, CUgraph* out) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::shared_ptr<Capture> capture;
  if (CUresult r = check_capture_end(*s, capture)) return r;
  bool invalid = capture->invalid;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<> e(wire::Op::end_capture, c->id, s->id);
  e.put(call.reply_id()).put<uint32_t>(invalid).put((uint32_t)(capture->given != nullptr));
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  end_capture(*capture);
  if (invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (call.status()) return call.status();
  *out = reply.get<CUgraph>();
  call.add_object(ObjectKind::graph, (uint64_t)*out);
  if (!capture->given) set_model(*out, capture->model);
  return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* status) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (s->legacy)
    if (CUresult r = check_stream_capture(*s)) return r;
  *status = capture_status(*s);
  return CUDA_SUCCESS;
}

// The status is kept in the client. The graph and its newest nodes need a round trip.
static CUresult capture_info(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** tail,
                             const CUgraphEdgeData** edges, size_t* count) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (s->legacy)
    if (CUresult r = check_stream_capture(*s)) return r;
  auto capture = capture_of(*s);
  *status = capture_status(*s);
  if (!capture) return CUDA_SUCCESS;
  if (id) *id = capture->id;
  if (!graph && !tail && !edges && !count) return CUDA_SUCCESS;
  CapturedNodes newest;
  if (CUresult r = query_captured_nodes(c, *s, *capture, newest)) return r;
  if (count) *count = newest.nodes.size();
  const CUgraphEdgeData* of_newest;
  const CUgraphNode* nodes = set_capture_tail(*capture, std::move(newest.nodes), of_newest);
  if (graph) *graph = newest.graph;
  if (tail) *tail = nodes;
  if (edges) *edges = of_newest;
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

API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream h, CUgraphNode* nodes,
                                                  const CUgraphEdgeData*, size_t n,
                                                  unsigned flags) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if ((n && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || n > kMaxElements)
    return CUDA_ERROR_INVALID_VALUE;
  if (!capture_of(*s)) return CUDA_ERROR_ILLEGAL_STATE;
  Call call;
  if (CUresult r = call.begin(h)) return r;
  wire::GrowingEncoder e(wire::Op::update_capture, c->id, s->id);
  e.put(call.reply_id()).put(flags).put((uint32_t)n);
  if (n) e.raw(nodes, (CheckedSize(n) * sizeof *nodes).value());
  call.send_and_wait(e.finish(), e.size());
  return call.status();
}
API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}
