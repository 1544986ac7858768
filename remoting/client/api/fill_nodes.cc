// CUDA entry points: graph nodes that fill memory. Pinned memory gets its device copy here.
#include "client/call.h"
#include "client/mapped.h"
#include "client/wrapped_calls.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

// Makes the destination available on the node of a graph object. The call itself reports an unknown
// object and an address that is no memory.
static CUresult map_destination(ObjectKind kind, const void* object,
                                const CUDA_MEMSET_NODE_PARAMS* p) {
  Call call;
  if (CUresult r = call.begin_without_context()) return r;
  if (!p || !call.select_node_of(kind, (uint64_t)object) || !call.context()) return CUDA_SUCCESS;
  return map_pinned(call.context(), p->dst);
}

API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS* p, CUcontext c) {
  if (CUresult r = map_destination(ObjectKind::graph, g, p)) return r;
  return send_cuGraphAddMemsetNode(out, g, d, n, p, c);
}
API CUresult cuGraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* p) {
  if (CUresult r = map_destination(ObjectKind::node, n, p)) return r;
  return send_cuGraphMemsetNodeSetParams(n, p);
}
API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n,
                                            const CUDA_MEMSET_NODE_PARAMS* p, CUcontext c) {
  if (CUresult r = map_destination(ObjectKind::exec, e, p)) return r;
  return send_cuGraphExecMemsetNodeSetParams(e, n, p, c);
}
