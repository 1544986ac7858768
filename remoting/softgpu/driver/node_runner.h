// Functions that run nodes, by the type of the node.
#pragma once
#include <cuda.h>

#include <functional>

namespace softgpu {

struct Context;
struct NodeParams;

// Check and complete the parameters of a node as the call of its kind does, and make the function
// that runs it.
CUresult node_runner(Context* c, NodeParams& params, std::function<CUresult()>& run);

}  // namespace softgpu
