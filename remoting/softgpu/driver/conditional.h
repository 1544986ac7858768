// Conditional nodes: they run their graphs depending on a value that kernels set.
#pragma once
#include <cuda.h>

#include <vector>

namespace softgpu {

struct GraphNode;
struct GraphState;

// Return whether a graph or one of its child graphs has a conditional node.
bool has_conditional(const GraphState* g);
// Return whether each condition of a graph and of the graphs in its nodes has a conditional node.
bool uses_all_conditions(const GraphState* g);
// Add a conditional node with empty graphs. `params` gets their handles.
CUresult add_conditional(CUgraphNode* out, GraphState* g, const std::vector<GraphNode*>& after,
                         CUDA_CONDITIONAL_NODE_PARAMS& params);

}  // namespace softgpu
