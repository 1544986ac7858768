// CUDA entry points: nodes of each kind, which the calls add or whose parameters they get and set.
#include "softgpu/api/require.h"
#include "softgpu/driver/batch_mem_op.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/node_runner.h"

using namespace softgpu;

#define REQUIRE_NODE(node, handle, kind) \
  REQUIRE_LIVE(GraphNode, node, handle); \
  if (node->params.type != kind) return CUDA_ERROR_INVALID_VALUE

static CUresult add(CUgraphNode* out, CUgraph h, const CUgraphNode* dependencies, size_t count,
                    NodeParams params) {
  REQUIRE_CURRENT_CONTEXT(c);
  auto* g = (GraphState*)h;
  if (!out || !g || !is_live(g) || (count && !dependencies) || count > g->nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after((GraphNode**)dependencies, (GraphNode**)dependencies + count);
  for (auto* d : after)
    if (!is_live(d) || d->graph != g) return CUDA_ERROR_INVALID_VALUE;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  *out = (CUgraphNode)add_node(g, std::move(params), std::move(run), std::move(after));
  return CUDA_SUCCESS;
}

static CUresult change(GraphNode* n, NodeParams params) {
  REQUIRE_CURRENT_CONTEXT(c);
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
                                  const CUDA_MEMSET_NODE_PARAMS* p, CUcontext ctx) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (ctx && !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
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

// The pointers in the result point into the node.
API CUresult cuGraphKernelNodeGetParams(CUgraphNode h, CUDA_KERNEL_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_KERNEL);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.kernel;
  return CUDA_SUCCESS;
}
API CUresult cuGraphKernelNodeSetParams(CUgraphNode h, const CUDA_KERNEL_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_KERNEL);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_KERNEL;
  q.kernel = *p;
  q.attributes = n->params.attributes;
  return change(n, q);
}
API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode h, CUDA_MEMCPY3D* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.copy;
  return CUDA_SUCCESS;
}
API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode h, const CUDA_MEMCPY3D* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  q.copy = *p;
  return change(n, q);
}
API CUresult cuGraphMemsetNodeGetParams(CUgraphNode h, CUDA_MEMSET_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_MEMSET);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.fill;
  return CUDA_SUCCESS;
}
API CUresult cuGraphMemsetNodeSetParams(CUgraphNode h, const CUDA_MEMSET_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_MEMSET);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMSET;
  q.fill = *p;
  return change(n, q);
}
API CUresult cuGraphHostNodeGetParams(CUgraphNode h, CUDA_HOST_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_HOST);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = n->params.host;
  return CUDA_SUCCESS;
}
API CUresult cuGraphHostNodeSetParams(CUgraphNode h, const CUDA_HOST_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_HOST);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_HOST;
  q.host = *p;
  return change(n, q);
}
API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode h, CUgraph* g) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_GRAPH);
  if (!g) return CUDA_ERROR_INVALID_VALUE;
  *g = (CUgraph)n->params.child;
  return CUDA_SUCCESS;
}

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
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  *e = n->params.event;
  return CUDA_SUCCESS;
}
API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode h, CUevent* e) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  *e = n->params.event;
  return CUDA_SUCCESS;
}
API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode h, CUevent e) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  return change(n, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, e));
}
API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode h, CUevent e) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  return change(n, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, e));
}

API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  NodeParams q;
  CUresult r = mem_op_params(p, q);
  return r ? r : add(out, g, d, n, q);
}
API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode h, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  NodeParams q;
  CUresult r = mem_op_params(p, q);
  return r ? r : change(n, q);
}
API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode h, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  REQUIRE_NODE(n, h, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = {nullptr, (unsigned)n->params.mem_ops.size(), n->params.mem_ops.data(), 0};
  return CUDA_SUCCESS;
}
