#include "softgpu/driver/conditional.h"

#include "softgpu/driver/graph.h"

namespace softgpu {

bool has_conditional(const GraphState* g) {
  for (auto& n : g->nodes)
    if (n->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
        (n->params.child && has_conditional(n->params.child)))
      return true;
  return false;
}

static bool is_valid(const CUDA_CONDITIONAL_NODE_PARAMS& p) {
  switch (p.type) {
    case CU_GRAPH_COND_TYPE_WHILE: return p.size == 1;
    case CU_GRAPH_COND_TYPE_IF: return p.size == 1 || p.size == 2;
    case CU_GRAPH_COND_TYPE_SWITCH: return p.size > 0 && p.size <= 1024;
    default: return false;
  }
}

// Return whether the condition belongs to a graph, or to a graph whose node contains it.
static bool has_condition(const GraphState* g, uint64_t handle) {
  for (; g; g = g->parent)
    for (auto& c : g->conditions)
      if (c.handle == handle) return true;
  return false;
}

static bool uses_condition(const GraphState* g, uint64_t handle) {
  for (auto& n : g->nodes) {
    if (n->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && n->params.conditional.handle == handle)
      return true;
    for (auto* body : n->params.bodies)
      if (uses_condition(body, handle)) return true;
  }
  return false;
}

bool uses_all_conditions(const GraphState* g) {
  for (auto& c : g->conditions)
    if (!uses_condition(g, c.handle)) return false;
  for (auto& n : g->nodes)
    for (auto* body : n->params.bodies)
      if (!uses_all_conditions(body)) return false;
  return true;
}

CUresult add_conditional(CUgraphNode* out, GraphState* g, const std::vector<GraphNode*>& after,
                         CUDA_CONDITIONAL_NODE_PARAMS& p) {
  if (!has_condition(g, p.handle) || !is_valid(p)) return CUDA_ERROR_INVALID_VALUE;
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
