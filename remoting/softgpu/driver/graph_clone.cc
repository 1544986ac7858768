#include "softgpu/driver/graph_clone.h"

#include "softgpu/driver/graph.h"
#include "softgpu/driver/graph_runner.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

GraphState* clone_graph(const GraphState* g) {
  GraphState* copy = make_graph();
  copy->objects = hold_objects(g->objects);
  for (auto& n : g->nodes) {
    NodeParams params = n->params;
    auto run = n->run;
    if (params.child) {
      params.child = clone_graph(params.child);
      run = child_runner(params.child);
    }
    copy->copies[n.get()] = add_node(copy, std::move(params), std::move(run), {});
  }
  for (auto& n : g->nodes)
    for (auto* d : n->dependencies) copy->copies[n.get()]->dependencies.push_back(copy->copies[d]);
  return copy;
}

}  // namespace softgpu
