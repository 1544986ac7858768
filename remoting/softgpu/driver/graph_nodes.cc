// Nodes of each kind: what they run, and their parameters read back and changed.
#include <cstring>

#include "softgpu/driver/graph.h"

namespace softgpu {

CUresult fill_runner(const CUDA_MEMSET_NODE_PARAMS& f, std::function<CUresult()>& run) {
  if ((f.elementSize != 1 && f.elementSize != 2 && f.elementSize != 4) || f.dst % f.elementSize)
    return CUDA_ERROR_INVALID_VALUE;
  size_t width = f.width * f.elementSize;
  for (size_t y = 0; y < f.height; ++y)
    if (!valid_device_range(f.dst + y * f.pitch, width)) return CUDA_ERROR_INVALID_VALUE;
  run = [f] {
    for (size_t y = 0; y < f.height; ++y)
      for (size_t x = 0; x < f.width; ++x)
        std::memcpy((void*)(f.dst + y * f.pitch + x * f.elementSize), &f.value, f.elementSize);
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

CUresult node_runner(Context* c, NodeParams& p, std::function<CUresult()>& run) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_runner(c, p, false, true, run);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return copy_runner(p.copy, run);
    case CU_GRAPH_NODE_TYPE_MEMSET: return fill_runner(p.fill, run);
    case CU_GRAPH_NODE_TYPE_HOST:
      if (!p.host.fn) return CUDA_ERROR_INVALID_VALUE;
      run = [h = p.host] {
        h.fn(h.userData);
        return CUDA_SUCCESS;
      };
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (!p.child || !known(p.child)) return CUDA_ERROR_INVALID_VALUE;
      if (has_conditional(p.child)) return CUDA_ERROR_NOT_SUPPORTED;
      p.child = clone_graph(p.child);
      run = child_runner(p.child);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return words_runner(c, p.words, run);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return p.event && known((EventState*)p.event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace softgpu

using namespace softgpu;

#define NODE(n, h, kind)                            \
  auto* n = (GraphNode*)(h);                        \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!n || !known(n) || n->params.type != kind) return CUDA_ERROR_INVALID_VALUE

static CUresult add(CUgraphNode* out, CUgraph h, const CUgraphNode* dependencies, size_t count,
                    NodeParams params) {
  Context* c;
  if (CUresult r = current_context(c)) return r;
  auto* g = (GraphState*)h;
  if (!out || !g || !known(g) || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after((GraphNode**)dependencies, (GraphNode**)dependencies + count);
  for (auto* d : after)
    if (!known(d) || d->graph != g) return CUDA_ERROR_INVALID_VALUE;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  *out = (CUgraphNode)add_node(g, std::move(params), std::move(run), std::move(after));
  return CUDA_SUCCESS;
}

static CUresult change(GraphNode* n, NodeParams params) {
  Context* c;
  if (CUresult r = current_context(c)) return r;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  n->params = std::move(params);
  n->run = std::move(run);
  return CUDA_SUCCESS;
}

API CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n) {
  return add(out, g, d, n, {});
}
API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_KERNEL;
  q.kernel = *p;
  return add(out, g, d, n, q);
}
API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_MEMCPY3D* p, CUcontext) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  q.copy = *p;
  return add(out, g, d, n, q);
}
API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMSET;
  q.fill = *p;
  return add(out, g, d, n, q);
}
API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                const CUDA_HOST_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_HOST;
  q.host = *p;
  return add(out, g, d, n, q);
}
API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      CUgraph child) {
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_GRAPH;
  q.child = (GraphState*)child;
  return add(out, g, d, n, q);
}

// Parameters as pointers into what the node keeps.
API CUresult cuGraphKernelNodeGetParams(CUgraphNode h, CUDA_KERNEL_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_KERNEL);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.kernel;
  return CUDA_SUCCESS;
}
API CUresult cuGraphKernelNodeSetParams(CUgraphNode h, const CUDA_KERNEL_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_KERNEL);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_KERNEL;
  q.kernel = *p;
  return change(n, q);
}
API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode h, CUDA_MEMCPY3D* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.copy;
  return CUDA_SUCCESS;
}
API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode h, const CUDA_MEMCPY3D* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  q.copy = *p;
  return change(n, q);
}
API CUresult cuGraphMemsetNodeGetParams(CUgraphNode h, CUDA_MEMSET_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_MEMSET);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.fill;
  return CUDA_SUCCESS;
}
API CUresult cuGraphMemsetNodeSetParams(CUgraphNode h, const CUDA_MEMSET_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_MEMSET);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMSET;
  q.fill = *p;
  return change(n, q);
}
API CUresult cuGraphHostNodeGetParams(CUgraphNode h, CUDA_HOST_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_HOST);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.host;
  return CUDA_SUCCESS;
}
API CUresult cuGraphHostNodeSetParams(CUgraphNode h, const CUDA_HOST_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_HOST);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_HOST;
  q.host = *p;
  return change(n, q);
}
API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode h, CUgraph* g) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_GRAPH);
  if (!g) return CUDA_ERROR_INVALID_VALUE;
  *g = (CUgraph)n->params.child;
  return CUDA_SUCCESS;
}

// ---- events ----
static NodeParams event_params(CUgraphNodeType type, CUevent e) {
  NodeParams q;
  q.type = type;
  q.event = e;
  return q;
}
API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                       CUevent e) {
  return add(out, g, d, n, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, e));
}
API CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                     CUevent e) {
  return add(out, g, d, n, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, e));
}
API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode h, CUevent* e) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  *e = n->params.event;
  return CUDA_SUCCESS;
}
API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode h, CUevent* e) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  *e = n->params.event;
  return CUDA_SUCCESS;
}
API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode h, CUevent e) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  return change(n, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, e));
}
API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode h, CUevent e) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  return change(n, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, e));
}

// ---- words ----
static CUresult words_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS* p, NodeParams& q) {
  if (!p || p->count > 256 || p->flags || (p->count && !p->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  q.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  q.words.assign(p->paramArray, p->paramArray + p->count);
  return CUDA_SUCCESS;
}
API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  NodeParams q;
  CUresult r = words_params(p, q);
  return r ? r : add(out, g, d, n, q);
}
API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode h, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  NodeParams q;
  CUresult r = words_params(p, q);
  return r ? r : change(n, q);
}
API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode h, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  NODE(n, h, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = {nullptr, (unsigned)n->params.words.size(), n->params.words.data(), 0};
  return CUDA_SUCCESS;
}
