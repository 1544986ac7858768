// CUDA entry points: graph nodes that record events and wait for them.
#include "client/event.h"
#include "client/graph_node_request.h"
#include "client/wrapped_calls.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

// Return the event of a node of the expected type.
static CUresult event_of_node(CUgraphNode n, CUgraphNodeType expected, CUevent* out) {
  CUgraphNodeType type;
  if (CUresult r = cuGraphNodeGetType(n, &type)) return r;
  if (!out || type != expected) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = query_node(call, wire::Op::node_event, n, d)) return r;
  uint32_t id = d.get<uint32_t>();
  for (Event* e : session()->events.all())
    if (e->id == id) {
      *out = (CUevent)e->handle;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                       CUevent event) {
  CUresult r = send_cuGraphAddEventRecordNode(out, g, d, n, event);
  if (!r) {
    auto model = model_of(g);
    MutexLock lock(model->mutex);
    model->contents.events.push_back({event, *out});
  }
  return r;
}
API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode n, CUevent* out) {
  return event_of_node(n, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}
API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode n, CUevent* out) {
  return event_of_node(n, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}
