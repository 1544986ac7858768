#include "client/conditional.h"

#include "client/graph_node_request.h"

namespace busbar::client {

static constexpr unsigned kMaxBodies = 1024;

CUresult add_conditional_node(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                              CUDA_CONDITIONAL_NODE_PARAMS& p) {
  if (!out || !p.size || p.size > kMaxBodies) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  NodeTarget target{NodeChange::add, g, d, n};
  if (CUresult r = begin_node_request(call, target)) return r;
  if (!call.select_node_of(ObjectKind::condition, p.handle)) return CUDA_ERROR_INVALID_VALUE;
  NodeEncoder e(wire::Op::conditional_node, call.context_id());
  e.put(call.reply_id());
  put_target(e, target);
  e.put((uint64_t)p.handle).put((uint32_t)p.type).put((uint32_t)p.size);
  wire::Decoder bodies(nullptr, 0);
  if (CUresult r = finish_node_request(call, e, target, out, &bodies)) return r;
  auto added = std::make_shared<Conditional>(Conditional{*out, p, std::vector<CUgraph>(p.size)});
  for (auto& body : added->bodies) {
    body = bodies.get<CUgraph>();
    call.add_object(ObjectKind::graph, (uint64_t)body, (uint64_t)*out);
  }
  if (!bodies.ok()) return CUDA_ERROR_UNKNOWN;
  added->params.phGraph_out = p.phGraph_out = added->bodies.data();
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  model->contents.conditionals.push_back(std::move(added));
  return CUDA_SUCCESS;
}

CUresult get_conditional_params(CUgraph g, CUgraphNode n, CUDA_CONDITIONAL_NODE_PARAMS& p) {
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  for (auto& c : model->contents.conditionals)
    if (c->node == n) {
      p = c->params;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace busbar::client
