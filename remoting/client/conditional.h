// Nodes that run graphs of their own, or do not.
#pragma once
#include <cuda.h>

namespace busbar::client {

CUresult conditional_node(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                          CUDA_CONDITIONAL_NODE_PARAMS& p);  // phGraph_out is filled
CUresult conditional_params(CUgraph g, CUgraphNode n, CUDA_CONDITIONAL_NODE_PARAMS& p);

}  // namespace busbar::client
