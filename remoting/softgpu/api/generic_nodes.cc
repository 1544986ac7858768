// CUDA entry points: nodes of any kind through CUgraphNodeParams.
#include <cstring>

#include "softgpu/api/require.h"
#include "softgpu/driver/conditional.h"
#include "softgpu/driver/graph.h"

using namespace softgpu;

// Kinds with a call of their own are forwarded to it.
API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph h, const CUgraphNode* d,
                            const CUgraphEdgeData*, size_t n, CUgraphNodeParams* p) {
  REQUIRE_CURRENT_CONTEXT(c);
  auto* g = (GraphState*)h;
  if (!out || !p || !g || !is_live(g) || (n && !d)) return CUDA_ERROR_INVALID_VALUE;
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
      CUDA_HOST_NODE_PARAMS q{p->host.fn, p->host.userData};
      return cuGraphAddHostNode(out, h, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(out, h, d, n, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(out, h, d, n);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphAddEventWaitNode(out, h, d, n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphAddEventRecordNode(out, h, d, n, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      CUDA_BATCH_MEM_OP_NODE_PARAMS q{p->memOp.ctx, p->memOp.count, p->memOp.paramArray,
                                      p->memOp.flags};
      return cuGraphAddBatchMemOpNode(out, h, d, n, &q);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_conditional(out, g, after, p->conditional);
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
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
