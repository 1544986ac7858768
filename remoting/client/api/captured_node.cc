#include "client/api/captured_node.h"

#include "client/api/require.h"
#include "client/call.h"

namespace busbar::client {

CUresult query_captured_nodes(Context* c, const Stream& s, const Capture& capture,
                              CapturedNodes& out) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<> e(wire::Op::capture_info, c->id, s.id);
  e.put(call.reply_id());
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (call.status()) return call.status();
  out.graph = reply.get<CUgraph>();
  uint64_t n = reply.get<uint64_t>();
  if (n > reply.left() / sizeof(CUgraphNode)) return CUDA_ERROR_UNKNOWN;
  if (!out.graph) return CUDA_SUCCESS;  // another thread has ended the capture
  call.add_object(ObjectKind::graph, (uint64_t)out.graph);
  // The program may add nodes from now on.
  if (!capture.given) set_model(out.graph, capture.model);
  out.nodes.resize(n);
  for (auto& node : out.nodes) {
    node = reply.get<CUgraphNode>();
    call.add_object(ObjectKind::node, (uint64_t)node, (uint64_t)out.graph);
  }
  return CUDA_SUCCESS;
}

CUresult add_captured_node(CUstream stream, const AddNode& add) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, stream, c);
  auto capture = capture_of(*s);
  if (!capture || capture_status(*s) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CapturedNodes newest;
  if (CUresult r = query_captured_nodes(c, *s, *capture, newest)) return r;
  if (!newest.graph) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUgraphNode added;
  if (CUresult r = add(&added, newest.graph, newest.nodes.data(), newest.nodes.size())) return r;
  return cuStreamUpdateCaptureDependencies_v2(stream, &added, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

CUresult add_captured_event_node(CUstream stream, CUevent event, bool record) {
  return add_captured_node(
      stream, [=](CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count) {
        return record ? cuGraphAddEventRecordNode(out, g, after, count, event)
                      : cuGraphAddEventWaitNode(out, g, after, count, event);
      });
}

}  // namespace busbar::client
