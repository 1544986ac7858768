#include "softgpu/driver/graph.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "softgpu/driver/handles.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

static std::atomic<unsigned> g_graph_ids{1};

GraphState* make_graph() {
  auto* g = new GraphState;
  g->id = g_graph_ids++;
  add_handle(g);
  return g;
}

void destroy_graph(GraphState* g) {
  remove_handle(g);
  drop_objects(g->objects);
  for (auto& n : g->nodes) {
    remove_handle(n.get());
    if (n->params.child) destroy_graph(n->params.child);
    for (auto* b : n->params.bodies) destroy_graph(b);
  }
  delete g;
}

bool is_captured(const GraphState* g) {
  return g->captures > 0 ||
         std::ranges::any_of(g->nodes, [](auto& n) { return is_captured(n.get()); });
}

bool is_captured(const GraphNode* n) {
  return (n->params.child && is_captured(n->params.child)) ||
         std::ranges::any_of(n->params.bodies, [](auto* body) { return is_captured(body); });
}

GraphNode* add_node(GraphState* g, NodeParams params, std::function<CUresult()> run,
                    std::vector<GraphNode*> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = g;
  node->params = std::move(params);
  node->run = std::move(run);
  node->dependencies = std::move(dependencies);
  node->id = (unsigned)g->nodes.size();
  if (node->params.child) node->params.child->parent = g;
  for (auto* body : node->params.bodies) body->parent = g;
  add_handle(node.get());
  g->nodes.push_back(std::move(node));
  return g->nodes.back().get();
}

bool has_memory_nodes(const GraphState* g) {
  return std::ranges::any_of(g->nodes, [](auto& n) { return n->params.memory != nullptr; });
}

bool sort_topologically(const GraphState* g, std::vector<GraphNode*>& order) {
  std::set<const GraphNode*> done;
  while (order.size() < g->nodes.size()) {
    size_t before = order.size();
    for (auto& n : g->nodes) {
      if (done.count(n.get()) || !std::all_of(n->dependencies.begin(), n->dependencies.end(),
                                              [&](auto* d) { return done.count(d) > 0; }))
        continue;
      done.insert(n.get());
      order.push_back(n.get());
    }
    if (order.size() == before) return false;
  }
  return true;
}

}  // namespace softgpu
