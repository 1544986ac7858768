#include "softgpu/driver/memory_node.h"

namespace softgpu {

CUresult make_allocation_node(Context* c, const CUDA_MEM_ALLOC_NODE_PARAMS& wanted,
                              NodeParams& out) {
  out.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  if (CUresult r = allocate_graph_memory(c, wanted.bytesize, out.memory)) return r;
  out.allocation = wanted;
  out.allocation.dptr = out.memory->at;
  out.allocation.accessDescs = nullptr;
  out.allocation.accessDescCount = 0;
  return CUDA_SUCCESS;
}

CUresult make_free_node(const GraphMemoryRef& memory, NodeParams& out) {
  out.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  out.memory = memory;
  return note_free_node(*memory);
}

}  // namespace softgpu
