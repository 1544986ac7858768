#include "softgpu/driver/graph_runner.h"

#include <vector>

#include "softgpu/device/conditions.h"
#include "softgpu/driver/graph.h"

namespace softgpu {

// Runs the graphs of a conditional node as they are now.
static std::function<CUresult()> conditional_runner(const NodeParams& p) {
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

std::function<CUresult()> runner_of(const GraphNode* n) {
  return n->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? conditional_runner(n->params) : n->run;
}

std::function<CUresult()> child_runner(GraphState* g) {
  std::vector<GraphNode*> order;
  if (!sort_topologically(g, order))
    return [] {
      return CUDA_ERROR_INVALID_VALUE;
    };
  std::vector<std::function<CUresult()>> runs;
  for (auto* n : order)
    if (auto run = runner_of(n)) runs.push_back(run);
  return [runs] {
    for (auto& r : runs)
      if (CUresult e = r()) return e;
    return CUDA_SUCCESS;
  };
}

}  // namespace softgpu
