// Nodes of graphs and their parameters.
//
// Thread safety: graphs are not synchronised; programs must not change a graph in two threads.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace softgpu {

struct GraphMemory;
struct GraphState;

// The parameters of a node, which programs can read back and change. Only the members of
// its type are used.
struct NodeParams {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  struct PackedArguments {
    std::vector<uint8_t> bytes;
    std::vector<void*> pointers;  // into `bytes`
  };
  std::shared_ptr<PackedArguments> packed;  // kernel.kernelParams points to its pointers
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS fill = {};
  CUDA_HOST_NODE_PARAMS host = {};
  CUevent event = nullptr;
  GraphState* child = nullptr;
  std::vector<CUstreamBatchMemOpParams> mem_ops;
  CUDA_CONDITIONAL_NODE_PARAMS conditional = {};  // its phGraph_out points to `bodies`
  std::vector<GraphState*> bodies;                // graphs that the condition may run
  std::shared_ptr<GraphMemory> memory;            // of memory allocation and free nodes
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  std::map<CUkernelNodeAttrID, CUkernelNodeAttrValue> attributes;  // of a kernel node
};

// Return whether all blocks of a kernel node must run at once.
inline bool is_cooperative(const NodeParams& p) {
  auto it = p.attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  return it != p.attributes.end() && it->second.cooperative;
}

struct GraphNode {
  GraphState* graph = nullptr;
  NodeParams params;
  std::function<CUresult()> run;  // empty: nothing to run
  std::vector<GraphNode*> dependencies;
  unsigned id = 0;  // within its graph
};

}  // namespace softgpu
