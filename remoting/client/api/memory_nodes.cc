// CUDA entry points: graph nodes that allocate and free memory, and the memory of graphs.
#include "client/api/captured_node.h"
#include "client/api/require.h"
#include "client/graph_memory.h"
#include "client/graph_model.h"
#include "client/wrapped_calls.h"

using namespace busbar;
using namespace busbar::client;

// Return the context in which a device's memory of graphs is allocated; null if it has none.
static Context* context_on(Device* d) {
  Context* c = current_context();
  if (!c || c->device != d) c = d->primary;
  return c && !c->destroyed ? c : nullptr;
}

static CUresult add_node(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                         MemoryNode node) {
  if (CUresult r = cuGraphAddEmptyNode(out, g, d, n)) return r;
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  model->contents.memory[*out] = std::move(node);
  return CUDA_SUCCESS;
}

// Finds the parameters of a node of one of both types.
static CUresult find_node(CUgraphNode n, bool frees, MemoryNode& out) {
  REQUIRE_SESSION;
  if (!home_of(ObjectKind::node, (uint64_t)n).link) return CUDA_ERROR_INVALID_VALUE;
  auto model = model_of_node(n);
  MutexLock lock(model->mutex);
  const MemoryNodes& memory = model->contents.memory;
  auto it = memory.find(n);
  if (it == memory.end() || it->second.frees != frees) return CUDA_ERROR_INVALID_VALUE;
  out = it->second;
  return CUDA_SUCCESS;
}

API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                    CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  REQUIRE_SESSION;
  if (!out || !p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (p->accessDescCount && !p->accessDescs))
    return CUDA_ERROR_INVALID_VALUE;
  if (p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE_DEVICE(device, p->poolProps.location.id);
  Context* c = context_on(device);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  MemoryNode node;
  if (CUresult r = allocate_graph_memory(c, p->bytesize, node.memory)) return r;
  node.params = *p;
  node.params.dptr = node.memory->at;
  node.params.accessDescs = nullptr;
  node.params.accessDescCount = 0;
  CUdeviceptr at = node.memory->at;
  CUresult r = add_node(out, g, d, n, std::move(node));
  if (!r) p->dptr = at;
  return r;
}
API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  MemoryNode node;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = find_node(n, false, node)) return r;
  *p = node.params;
  return CUDA_SUCCESS;
}

API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                   CUdeviceptr p) {
  REQUIRE_SESSION;
  MemoryNode node;
  node.frees = true;
  node.memory = find_graph_memory(p);
  if (!out || !node.memory) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = note_free_node(*node.memory)) return r;
  CUresult r = add_node(out, g, d, n, node);
  if (r) forget_free_node(*node.memory);
  return r;
}
API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr* p) {
  MemoryNode node;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = find_node(n, true, node)) return r;
  *p = node.memory->at;
  return CUDA_SUCCESS;
}

// The node knows these nodes as empty ones.
API CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType* type) {
  if (CUresult r = send_cuGraphNodeGetType(n, type)) return r;
  auto model = model_of_node(n);
  MutexLock lock(model->mutex);
  const MemoryNodes& memory = model->contents.memory;
  auto it = memory.find(n);
  if (it != memory.end())
    *type = it->second.frees ? CU_GRAPH_NODE_TYPE_MEM_FREE : CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  trim_graph_memory(d);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  REQUIRE_DEVICE(d, dev);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *(cuuint64_t*)value = graph_memory_bytes(d);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *(cuuint64_t*)value = graph_memory_high(d);
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
API CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  REQUIRE_DEVICE(d, dev);
  bool high =
      which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (!value || !high || *(cuuint64_t*)value) return CUDA_ERROR_INVALID_VALUE;
  reset_graph_memory_high(d);
  return CUDA_SUCCESS;
}
