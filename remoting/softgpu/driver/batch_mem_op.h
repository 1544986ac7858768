// Batch memory operations: a list of writes and waits.
#pragma once
#include <cuda.h>

#include <functional>
#include <vector>

namespace softgpu {

struct Context;
struct NodeParams;

// Check the operations and make the function that executes them.
CUresult mem_op_runner(Context* c, const std::vector<CUstreamBatchMemOpParams>& mem_ops,
                       std::function<CUresult()>& run);
// Fill in the parameters of a batch memory operation node. Return an error if they are not valid.
CUresult mem_op_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS* from, NodeParams& to);

}  // namespace softgpu
