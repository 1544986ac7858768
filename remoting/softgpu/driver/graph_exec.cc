#include "softgpu/driver/graph_exec.h"

#include "softgpu/driver/graph_runner.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

static void gather_conditions(const GraphState* g, std::vector<GraphState::Condition>& out) {
  out.insert(out.end(), g->conditions.begin(), g->conditions.end());
  for (auto& n : g->nodes)
    for (auto* b : n->params.bodies) gather_conditions(b, out);
}

static std::vector<UserObject*> gather_objects(const GraphState* g) {
  auto all = g->objects;
  auto add = [&](const GraphState* inside) {
    auto objects = gather_objects(inside);
    all.insert(all.end(), objects.begin(), objects.end());
  };
  for (auto& n : g->nodes) {
    if (n->params.child) add(n->params.child);
    for (auto* b : n->params.bodies) add(b);
  }
  return all;
}

std::vector<MemoryNode> memory_nodes(const GraphExec& e) {
  std::vector<MemoryNode> nodes;
  for (auto& s : e.steps)
    if (s.params.memory)
      nodes.push_back({s.params.type == CU_GRAPH_NODE_TYPE_MEM_FREE, s.params.memory});
  return nodes;
}

CUresult instantiate(const GraphState* g, unsigned long long flags, GraphExec*& out) {
  std::vector<GraphNode*> order;
  if (!sort_topologically(g, order)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(g) && !g->exec.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  auto* e = new GraphExec;
  e->flags = flags;
  g->exec = e->lifetime;
  e->objects = std::make_shared<HeldObjects>(gather_objects(g));
  gather_conditions(g, e->conditions);
  for (auto* n : order) e->steps.push_back({n, n->params, runner_of(n), true});
  add_handle(e);
  out = e;
  return CUDA_SUCCESS;
}

CUresult update(GraphExec* e, const GraphState* g) {
  std::vector<GraphNode*> order;
  if (!sort_topologically(g, order)) return CUDA_ERROR_INVALID_VALUE;
  auto replaced = std::make_shared<HeldObjects>(gather_objects(g));  // released after the lock
  std::lock_guard lock(e->mutex);
  bool same = order.size() == e->steps.size();
  for (size_t i = 0; same && i < order.size(); ++i)
    same = order[i]->params.type == e->steps[i].params.type;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < order.size(); ++i)
    e->steps[i] = {order[i], order[i]->params, runner_of(order[i]), e->steps[i].enabled};
  e->conditions.clear();
  gather_conditions(g, e->conditions);
  e->objects.swap(replaced);
  return CUDA_SUCCESS;
}

}  // namespace softgpu
