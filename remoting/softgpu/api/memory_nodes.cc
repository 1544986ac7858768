// CUDA entry points: graph nodes that allocate and free memory, and the memory of graphs.
#include "softgpu/api/require.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/memory_node.h"

using namespace softgpu;

static CUresult add(CUgraphNode* out, CUgraph h, const CUgraphNode* dependencies, size_t count,
                    NodeParams params) {
  auto* g = (GraphState*)h;
  if (!out || !g || !is_live(g) || (count && !dependencies) || count > g->nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after((GraphNode**)dependencies, (GraphNode**)dependencies + count);
  for (auto* d : after)
    if (!is_live(d) || d->graph != g) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUgraphNode)add_node(g, std::move(params), nullptr, std::move(after));
  return CUDA_SUCCESS;
}

// Return the context in which a device's memory of graphs is allocated; null if it has none.
static Context* context_on(DeviceState* d) {
  Context* c = nullptr;
  if (current_context(c) || c->device != d) c = d->primary;
  return c && !c->destroyed ? c : nullptr;
}

API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                    CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  REQUIRE_DRIVER();
  if (!out || !p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (p->accessDescCount && !p->accessDescs))
    return CUDA_ERROR_INVALID_VALUE;
  if (p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE_DEVICE_STATE(device, p->poolProps.location.id);
  Context* c = context_on(device);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  NodeParams q;
  if (CUresult r = make_allocation_node(c, *p, q)) return r;
  CUdeviceptr at = q.allocation.dptr;
  CUresult r = add(out, g, d, n, std::move(q));
  if (!r) p->dptr = at;
  return r;
}
API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode h, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!p || n->params.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.allocation;
  return CUDA_SUCCESS;
}

API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                   CUdeviceptr p) {
  REQUIRE_DRIVER();
  NodeParams q;
  GraphMemoryRef memory = find_graph_memory(p);
  if (!out || !memory) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = make_free_node(memory, q)) return r;
  CUresult r = add(out, g, d, n, std::move(q));
  if (r) forget_free_node(*memory);
  return r;
}
API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode h, CUdeviceptr* p) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!p || n->params.type != CU_GRAPH_NODE_TYPE_MEM_FREE) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.memory->at;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  trim_graph_memory(d->ordinal);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *(cuuint64_t*)value = graph_memory_bytes(d->ordinal);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *(cuuint64_t*)value = graph_memory_high(d->ordinal);
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
API CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  REQUIRE_DEVICE_STATE(d, dev);
  bool high =
      which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (!value || !high || *(cuuint64_t*)value) return CUDA_ERROR_INVALID_VALUE;
  reset_graph_memory_high(d->ordinal);
  return CUDA_SUCCESS;
}
