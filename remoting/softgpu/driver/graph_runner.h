// Functions that run all nodes of a graph in topological order.
#pragma once
#include <cuda.h>

#include <functional>

namespace softgpu {

struct GraphNode;
struct GraphState;

// Return a function that runs the nodes that a graph has now.
std::function<CUresult()> child_runner(GraphState* g);
// Return the function that a node runs at the next launch; conditional bodies may have changed
// since it was made.
std::function<CUresult()> runner_of(const GraphNode* n);

}  // namespace softgpu
