// Nodes that run graphs of their own while, if or when a value says so; kernels set the value.
#include "softgpu/device/conditions.h"
#include "softgpu/driver/graph.h"

namespace softgpu {

bool has_conditional(const GraphState* g) {
  for (auto& n : g->nodes)
    if (n->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
        (n->params.child && has_conditional(n->params.child)))
      return true;
  return false;
}

std::function<CUresult()> conditional_runner(const NodeParams& p) {
  std::vector<std::function<CUresult()>> bodies;
  for (auto* b : p.bodies) bodies.push_back(child_runner(b));
  uint64_t handle = p.conditional.handle;
  switch (p.conditional.type) {
    case CU_GRAPH_COND_TYPE_WHILE:
      return [=] {
        while (condition(handle))
          if (CUresult r = bodies[0]()) return r;
        return CUDA_SUCCESS;
      };
    case CU_GRAPH_COND_TYPE_IF:
      return [=] {
        return condition(handle) ? bodies[0]() : bodies.size() > 1 ? bodies[1]() : CUDA_SUCCESS;
      };
    default:
      return [=] {
        uint32_t v = condition(handle);
        return v < bodies.size() ? bodies[v]() : CUDA_SUCCESS;
      };
  }
}

static bool fits(const CUDA_CONDITIONAL_NODE_PARAMS& p) {
  switch (p.type) {
    case CU_GRAPH_COND_TYPE_WHILE: return p.size == 1;
    case CU_GRAPH_COND_TYPE_IF: return p.size == 1 || p.size == 2;
    case CU_GRAPH_COND_TYPE_SWITCH: return p.size > 0 && p.size <= 1024;
    default: return false;
  }
}

CUresult add_conditional(CUgraphNode* out, GraphState* g, const std::vector<GraphNode*>& after,
                         CUDA_CONDITIONAL_NODE_PARAMS& p) {
  bool ours = false;
  for (auto& c : g->conditions) ours |= c.handle == p.handle;
  if (!ours || !fits(p)) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  q.conditional = p;
  for (unsigned i = 0; i < p.size; ++i) q.bodies.push_back(make_graph());
  auto* n = add_node(g, std::move(q), {}, after);
  n->params.conditional.phGraph_out = p.phGraph_out = (CUgraph*)n->params.bodies.data();
  *out = (CUgraphNode)n;
  return CUDA_SUCCESS;
}

}  // namespace softgpu

using namespace softgpu;

API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph h, CUcontext,
                                            unsigned value, unsigned flags) {
  Context* c;
  if (CUresult r = current_context(c)) return r;
  auto* g = (GraphState*)h;
  if (!out || !g || !known(g) || flags > CU_GRAPH_COND_ASSIGN_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  *out = make_condition(value);
  g->conditions.push_back(
      {*out, value, flags == CU_GRAPH_COND_ASSIGN_DEFAULT,
       std::shared_ptr<void>(g, [handle = *out](void*) { forget_condition(handle); })});
  return CUDA_SUCCESS;
}
