// Nodes that run graphs of their own, or do not: IF, WHILE and SWITCH. The value that decides is
// the GPU's.
#include "client/conditional.h"

#include <cstring>

#include "client/node_place.h"

namespace busbar::client {

CUresult conditional_node(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                          CUDA_CONDITIONAL_NODE_PARAMS& p) {
  if (!out || !p.size || p.size > 1024) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  Place place{What::add, g, d, n};
  if (CUresult r = begin_node(call, place)) return r;
  if (!call.known(ObjectKind::condition, p.handle)) return CUDA_ERROR_INVALID_VALUE;
  NodeRequest e(wire::Op::conditional_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put((uint64_t)p.handle).put((uint32_t)p.type).put((uint32_t)p.size);
  wire::Decoder bodies(nullptr, 0);
  if (CUresult r = finish_node(call, e, place, out, &bodies)) return r;
  auto made = std::make_shared<Conditional>(Conditional{*out, p, std::vector<CUgraph>(p.size)});
  for (auto& body : made->bodies) {
    body = bodies.get<CUgraph>();
    call.remember(ObjectKind::graph, (uint64_t)body, (uint64_t)*out);
  }
  if (!bodies.ok()) return CUDA_ERROR_UNKNOWN;
  made->params.phGraph_out = p.phGraph_out = made->bodies.data();
  auto model = model_of(g);
  std::lock_guard lock(model->mutex);
  model->conditionals.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult conditional_params(CUgraph g, CUgraphNode n, CUDA_CONDITIONAL_NODE_PARAMS& p) {
  auto model = model_of(g);
  std::lock_guard lock(model->mutex);
  for (auto& c : model->conditionals)
    if (c->node == n) {
      p = c->params;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_SUPPORTED;  // of a clone: the program was never told its graphs
}

}  // namespace busbar::client
