// CUDA entry points: nodes of any kind through CUgraphNodeParams.
#include <cstring>

#include "softgpu/api/require.h"
#include "softgpu/driver/conditional.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/graph_memory.h"

using namespace softgpu;

static CUDA_BATCH_MEM_OP_NODE_PARAMS batch_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& p) {
  return {p.ctx, p.count, p.paramArray, p.flags};
}
static CUDA_HOST_NODE_PARAMS host_of(const CUDA_HOST_NODE_PARAMS_v2& p) {
  return {p.fn, p.userData};
}

// Kinds with a call of their own are forwarded to it.
API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph h, const CUgraphNode* d,
                            const CUgraphEdgeData*, size_t n, CUgraphNodeParams* p) {
  REQUIRE_CURRENT_CONTEXT(c);
  auto* g = (GraphState*)h;
  if (!out || !p || !g || !is_live(g) || (n && !d) || n > g->nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after((GraphNode**)d, (GraphNode**)d + n);
  for (auto* before : after)
    if (!is_live(before) || before->graph != g) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphAddKernelNode(out, h, d, n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphAddMemcpyNode(out, h, d, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphAddMemsetNode(out, h, d, n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset,
                                  p->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST: {
      auto q = host_of(p->host);
      return cuGraphAddHostNode(out, h, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(out, h, d, n, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(out, h, d, n);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphAddEventWaitNode(out, h, d, n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphAddEventRecordNode(out, h, d, n, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto q = batch_of(p->memOp);
      return cuGraphAddBatchMemOpNode(out, h, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_conditional(out, g, after, p->conditional);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS q;
      static_assert(sizeof q == sizeof p->alloc);
      std::memcpy(&q, &p->alloc, sizeof q);
      CUresult r = cuGraphAddMemAllocNode(out, h, d, n, &q);
      p->alloc.dptr = q.dptr;
      return r;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(out, h, d, n, p->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

API CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphKernelNodeSetParams(n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphMemcpyNodeSetParams(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphMemsetNodeSetParams(n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST: {
      auto q = host_of(p->host);
      return cuGraphHostNodeSetParams(n, &q);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphEventRecordNodeSetEvent(n, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphEventWaitNodeSetEvent(n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto q = batch_of(p->memOp);
      return cuGraphBatchMemOpNodeSetParams(n, &q);
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}
API CUresult cuGraphNodeSetParams_v2(CUgraphNode n, CUgraphNodeParams* p) {
  return cuGraphNodeSetParams(n, p);
}

API CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphExecKernelNodeSetParams(e, n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphExecMemcpyNodeSetParams(e, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphExecMemsetNodeSetParams(e, n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset,
                                            p->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST: {
      auto q = host_of(p->host);
      return cuGraphExecHostNodeSetParams(e, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphExecEventRecordNodeSetEvent(e, n, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphExecEventWaitNodeSetEvent(e, n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto q = batch_of(p->memOp);
      return cuGraphExecBatchMemOpNodeSetParams(e, n, &q);
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

API CUresult cuGraphNodeGetParams(CUgraphNode h, CUgraphNodeParams* p) {
  auto* n = (GraphNode*)h;
  REQUIRE_DRIVER();
  if (!p || !n || !is_live(n)) return CUDA_ERROR_INVALID_VALUE;
  const NodeParams& from = n->params;
  *p = {};
  p->type = from.type;
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      std::memcpy(&p->kernel, &from.kernel, sizeof from.kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: p->memcpy.copyParams = from.copy; break;
    case CU_GRAPH_NODE_TYPE_MEMSET: std::memcpy(&p->memset, &from.fill, sizeof from.fill); break;
    case CU_GRAPH_NODE_TYPE_HOST:
      p->host.fn = from.host.fn;
      p->host.userData = from.host.userData;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH: p->graph.graph = (CUgraph)from.child; break;
    case CU_GRAPH_NODE_TYPE_EMPTY: break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: p->eventWait.event = from.event; break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: p->eventRecord.event = from.event; break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      p->memOp.count = (unsigned)from.mem_ops.size();
      p->memOp.paramArray = (CUstreamBatchMemOpParams*)from.mem_ops.data();
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: p->conditional = from.conditional; break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      std::memcpy(&p->alloc, &from.allocation, sizeof from.allocation);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: p->free.dptr = from.memory->at; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
