#include "softgpu/driver/graph_exec.h"

#include <algorithm>
#include <set>

#include "softgpu/driver/conditional.h"
#include "softgpu/driver/graph_runner.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

static void gather_conditions(const GraphState* g, std::vector<GraphState::Condition>& out) {
  out.insert(out.end(), g->conditions.begin(), g->conditions.end());
  for (auto& n : g->nodes)
    for (auto* b : n->params.bodies) gather_conditions(b, out);
}

// The objects of graphs inside come first: NVIDIA's driver releases them first.
static void gather_objects(const GraphState* g, ObjectCounts& all) {
  for (auto& n : g->nodes) {
    if (n->params.child) gather_objects(n->params.child, all);
    for (auto* b : n->params.bodies) gather_objects(b, all);
  }
  for (auto& [o, count] : g->objects) count_of(all, o) += count;
}
static std::shared_ptr<HeldObjects> hold_all_objects(const GraphState* g) {
  ObjectCounts all;
  gather_objects(g, all);
  return std::make_shared<HeldObjects>(all);
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
  if (!sort_topologically(g, order) || !uses_all_conditions(g)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(g) && !g->exec.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  auto* e = new GraphExec;
  e->flags = flags;
  g->exec = e->lifetime;
  e->objects = hold_all_objects(g);
  gather_conditions(g, e->conditions);
  for (auto* n : order) e->steps.push_back({n, n->params, runner_of(n), true});
  add_handle(e);
  out = e;
  return CUDA_SUCCESS;
}

CUresult update(GraphExec* e, const GraphState* g) {
  std::vector<GraphNode*> order;
  if (!sort_topologically(g, order)) return CUDA_ERROR_INVALID_VALUE;
  auto replaced = hold_all_objects(g);  // released after the lock
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

// Return the positions of the nodes that a node of `g` depends on.
static std::set<size_t> positions_of(const GraphState* g, const std::vector<GraphNode*>& nodes) {
  std::set<size_t> positions;
  for (size_t i = 0; i < g->nodes.size(); ++i)
    if (std::find(nodes.begin(), nodes.end(), g->nodes[i].get()) != nodes.end())
      positions.insert(i);
  return positions;
}

// Return whether two graphs have nodes of the same types with the same edges, in the order in which
// they were added.
static bool has_same_topology(const GraphState* a, const GraphState* b) {
  if (a->nodes.size() != b->nodes.size()) return false;
  for (size_t i = 0; i < a->nodes.size(); ++i) {
    const GraphNode &x = *a->nodes[i], &y = *b->nodes[i];
    if (x.params.type != y.params.type ||
        positions_of(a, x.dependencies) != positions_of(b, y.dependencies))
      return false;
    if (x.params.child && !has_same_topology(x.params.child, y.params.child)) return false;
  }
  return true;
}

CUresult replace_child(GraphExec::Step& step, GraphState* child) {
  const GraphState* known = step.params.child;  // ends with the graph of the node
  if (!known || !is_live(known) || !has_same_topology(known, child))
    return CUDA_ERROR_INVALID_VALUE;
  step.run = [run = child_runner(child), objects = hold_all_objects(child)] {
    return run();
  };
  return CUDA_SUCCESS;
}

}  // namespace softgpu
