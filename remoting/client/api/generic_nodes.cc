// CUDA entry points: graph nodes in the form that covers all kinds.
#include <cstring>

#include <vector>
#include "client/call.h"
#include "client/conditional.h"
#include "export.h"

using namespace busbar::client;

static CUDA_BATCH_MEM_OP_NODE_PARAMS batch_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& p) {
  return {p.ctx, p.count, p.paramArray, p.flags};
}

static CUDA_MEM_ALLOC_NODE_PARAMS as_v1(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& p) {
  static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof p);
  CUDA_MEM_ALLOC_NODE_PARAMS q;
  std::memcpy(&q, &p, sizeof q);
  return q;
}

static CUresult add_any(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                        CUgraphNodeParams* p) {
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS q;
      static_assert(sizeof q == sizeof p->kernel);
      std::memcpy(&q, &p->kernel, sizeof q);
      return cuGraphAddKernelNode_v2(out, g, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphAddMemcpyNode(out, g, d, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS q{};
      std::memcpy(&q, &p->memset, sizeof q);
      return cuGraphAddMemsetNode(out, g, d, n, &q, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS q{p->host.fn, p->host.userData};
      return cuGraphAddHostNode(out, g, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(out, g, d, n, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(out, g, d, n);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphAddEventWaitNode(out, g, d, n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphAddEventRecordNode(out, g, d, n, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto q = batch_of(p->memOp);
      return cuGraphAddBatchMemOpNode(out, g, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_conditional_node(out, g, d, n, p->conditional);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS q = as_v1(p->alloc);
      CUresult r = cuGraphAddMemAllocNode(out, g, d, n, &q);
      p->alloc.dptr = q.dptr;
      return r;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(out, g, d, n, p->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* d,
                               const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* p) {
  if (!out || !p || (n && !d) || n > kMaxElements) return CUDA_ERROR_INVALID_VALUE;
  if (!edges) return add_any(out, g, d, n, p);
  if (CUresult r = add_any(out, g, nullptr, 0, p)) return r;
  std::vector<CUgraphNode> to(n, *out);
  return n ? cuGraphAddDependencies_v2(g, d, to.data(), edges, n) : CUDA_SUCCESS;
}

#undef cuGraphNodeSetParams
API CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphKernelNodeSetParams_v2(n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphMemcpyNodeSetParams(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphMemsetNodeSetParams(n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
      return cuGraphHostNodeSetParams(n, (const CUDA_HOST_NODE_PARAMS*)&p->host);
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
      return cuGraphExecKernelNodeSetParams_v2(e, n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphExecMemcpyNodeSetParams(e, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphExecMemsetNodeSetParams(e, n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset,
                                            p->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
      return cuGraphExecHostNodeSetParams(e, n, (const CUDA_HOST_NODE_PARAMS*)&p->host);
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphExecChildGraphNodeSetParams(e, n, p->graph.graph);
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

static CUresult get_params(CUgraphNode n, CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphKernelNodeGetParams_v2(n, (CUDA_KERNEL_NODE_PARAMS*)&p.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphMemcpyNodeGetParams(n, &p.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphMemsetNodeGetParams(n, (CUDA_MEMSET_NODE_PARAMS*)&p.memset);
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS q{};
      CUresult r = cuGraphHostNodeGetParams(n, &q);
      p.host.fn = q.fn;
      p.host.userData = q.userData;
      return r;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphChildGraphNodeGetGraph(n, &p.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphEventWaitNodeGetEvent(n, &p.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphEventRecordNodeGetEvent(n, &p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      CUDA_BATCH_MEM_OP_NODE_PARAMS q{};
      CUresult r = cuGraphBatchMemOpNodeGetParams(n, &q);
      p.memOp = {q.ctx, q.count, q.paramArray, q.flags};
      return r;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      CUgraph g = nullptr;
      CUresult r = cuGraphNodeGetContainingGraph(n, &g);
      return r ? r : get_conditional_params(g, n, p.conditional);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return cuGraphMemAllocNodeGetParams(n, (CUDA_MEM_ALLOC_NODE_PARAMS*)&p.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphMemFreeNodeGetParams(n, &p.free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

API CUresult cuGraphNodeGetParams(CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = {};
  CUresult r = cuGraphNodeGetType(n, &p->type);
  return r ? r : get_params(n, *p);
}
