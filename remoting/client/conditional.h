// Conditional graph nodes (IF, WHILE, SWITCH). The GPU evaluates the condition.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

namespace busbar::client {

// Adds a node and fills in p.phGraph_out with the graphs of its bodies.
CUresult add_conditional_node(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                              CUDA_CONDITIONAL_NODE_PARAMS& p);
// Returns CUDA_ERROR_NOT_SUPPORTED for a node of a cloned graph, whose bodies are unknown here.
CUresult get_conditional_params(CUgraph g, CUgraphNode n, CUDA_CONDITIONAL_NODE_PARAMS& p);

}  // namespace busbar::client
