#include "client/graph_node_request.h"

#include "checked_size.h"

namespace busbar::client {

CUresult begin_node_request(Call& call, const NodeTarget& t) {
  if (CUresult r = call.begin_without_context()) return r;
  if (t.change == NodeChange::add) {
    if (!call.select_node_of(ObjectKind::graph, (uint64_t)t.graph) ||
        (t.count && !t.dependencies) || t.count > kMaxElements)
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < t.count; ++i)
      if (!call.select_node_of(ObjectKind::node, (uint64_t)t.dependencies[i]))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  if (!call.select_node_of(ObjectKind::node, (uint64_t)t.node) ||
      (t.change == NodeChange::exec_set &&
       !call.select_node_of(ObjectKind::exec, (uint64_t)t.exec)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

void put_target(NodeEncoder& e, const NodeTarget& t) {
  e.put((uint32_t)t.change)
      .put((uint32_t)t.count)
      .put((uint64_t)t.graph)
      .put((uint64_t)t.exec)
      .put((uint64_t)t.node);
  if (t.count) e.raw(t.dependencies, (CheckedSize(t.count) * sizeof *t.dependencies).value());
}

CUresult finish_node_request(Call& call, NodeEncoder& e, const NodeTarget& t, CUgraphNode* out,
                             wire::Decoder* rest) {
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (call.status() || !out) return call.status();
  *out = reply.get<CUgraphNode>();
  call.add_object(ObjectKind::node, (uint64_t)*out, (uint64_t)t.graph);
  if (rest) *rest = reply;
  return reply.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult query_node(Call& call, wire::Op op, CUgraphNode n, wire::Decoder& reply) {
  if (CUresult r = call.begin_without_context()) return r;
  if (!call.select_node_of(ObjectKind::node, (uint64_t)n)) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<> e(op, call.context_id());
  e.put(call.reply_id()).put((uint64_t)n);
  reply = call.send_and_wait(e.finish(), e.size());
  return call.status();
}

}  // namespace busbar::client
