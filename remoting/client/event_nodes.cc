// Nodes that record events and wait for them, and the calls that make such nodes of captured ones.
#include "client/event_nodes.h"

#include "client/node_calls.h"
#include "client/node_place.h"

namespace busbar::client {

static CUresult event_of(CUgraphNode n, CUgraphNodeType wanted, CUevent* out) {
  CUgraphNodeType type;
  if (CUresult r = cuGraphNodeGetType(n, &type)) return r;
  if (!out || type != wanted) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::node_event, n, d)) return r;
  uint32_t id = d.get<uint32_t>();
  for (Event* e : session()->events.all())
    if (e->id == id) {
      *out = (CUevent)e->handle;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult capture_external(CUstream stream, CUevent event, bool record) {
  CUstreamCaptureStatus status;
  CUgraph g = nullptr;
  const CUgraphNode* tail = nullptr;
  size_t count = 0;
  CUgraphNode made;
  if (CUresult r = cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &g, &tail, nullptr, &count))
    return r;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<CUgraphNode> after(
      tail, tail + count);  // the next question for the capture changes the list
  if (CUresult r = record ? cuGraphAddEventRecordNode(&made, g, after.data(), count, event)
                          : cuGraphAddEventWaitNode(&made, g, after.data(), count, event))
    return r;
  return cuStreamUpdateCaptureDependencies_v2(stream, &made, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

}  // namespace busbar::client

using namespace busbar::client;

API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                       CUevent event) {
  CUresult r = node_cuGraphAddEventRecordNode(out, g, d, n, event);
  if (!r) {
    auto model = model_of(g);
    std::lock_guard lock(model->mutex);
    model->events.push_back(event);
  }
  return r;
}
API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode n, CUevent* out) {
  return event_of(n, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}
API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode n, CUevent* out) {
  return event_of(n, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}
