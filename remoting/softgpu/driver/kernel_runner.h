// Launches of kernels, as functions that streams and graphs run.
#pragma once
#include <cuda.h>

#include <functional>

namespace softgpu {

struct Context;
struct NodeParams;

// Check a launch and make the function that executes it. Compiles the kernel. With `keep` the
// kernel's arguments are copied to the node's parameters: the node outlives the call.
CUresult kernel_runner(Context* c, NodeParams& node, bool cooperative, bool keep,
                       std::function<CUresult()>& run);

}  // namespace softgpu
