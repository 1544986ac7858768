// Parameters of memory allocation nodes and memory free nodes.
//
// Thread safety: functions may be called from any thread, but not with Context::mutex.
#pragma once
#include <cuda.h>

#include "softgpu/driver/graph_memory.h"
#include "softgpu/driver/graph_node.h"

namespace softgpu {

struct Context;

// Allocate the memory of a memory allocation node and set the parameters of the node. May wait for
// the work of the context.
CUresult make_allocation_node(Context* c, const CUDA_MEM_ALLOC_NODE_PARAMS& wanted,
                              NodeParams& out);
// Set the parameters of a memory free node. Fail if a graph has one for this memory already.
// forget_free_node must follow if the node is not added.
CUresult make_free_node(const GraphMemoryRef& memory, NodeParams& out);

}  // namespace softgpu
