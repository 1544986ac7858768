// CUDA entry points: graph nodes with batch memory operations, as cuStreamBatchMemOp on a stream.
#include "checked_size.h"
#include "client/graph_node_request.h"
#include "client/mapped.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

namespace {
constexpr unsigned kMaxOperations = 256;
using Operation = CUstreamBatchMemOpParams;

CUresult check_address(const Call& call, const Operation& w) {
  size_t bytes = 4;
  CUdeviceptr p = w.waitValue.address;  // at the same offset in each form
  switch (w.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: bytes = 8; break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: break;
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  if (p % bytes) return CUDA_ERROR_INVALID_VALUE;
  Region r = session()->addresses.find(p);
  if (r.kind == Region::pinned && call.context() && p + bytes <= r.base + r.bytes)
    return map_pinned(call.context(), p);
  return session()->addresses.device_range(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult request_batch_node(const NodeTarget& target, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p,
                            CUgraphNode* out) {
  if (!p || (target.change == NodeChange::add && !out) || p->count > kMaxOperations || p->flags ||
      (p->count && !p->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node_request(call, target)) return r;
  for (unsigned i = 0; i < p->count; ++i)
    if (CUresult r = check_address(call, p->paramArray[i])) return r;
  if (!(CheckedSize(target.count) * 8 + p->count * sizeof(Operation)).within(kMaxArrayBytes))
    return CUDA_ERROR_INVALID_VALUE;
  NodeEncoder e(wire::Op::batch_mem_op_node, call.context_id());
  e.put(call.reply_id());
  put_target(e, target);
  e.put(p->flags).put(p->count);
  e.raw(p->paramArray, (uint32_t)(p->count * sizeof(Operation)));
  return finish_node_request(call, e, target, out);
}
}  // namespace

API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return request_batch_node({NodeChange::add, g, d, n}, p, out);
}
API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return request_batch_node(existing_node(n), p, nullptr);
}
API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec e, CUgraphNode n,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return request_batch_node(existing_node(e, n), p, nullptr);
}
API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = query_node(call, wire::Op::batch_mem_op_node_params, n, d)) return r;
  *p = {};
  p->ctx = call.context() ? (CUcontext)call.context()->handle : nullptr;
  p->flags = d.get<uint32_t>();
  p->count = d.get<uint32_t>();
  const uint8_t* operations = d.raw(p->count * sizeof(Operation));
  if (!d.ok()) return CUDA_ERROR_UNKNOWN;
  auto model = model_of_node(n);
  MutexLock lock(model->mutex);
  NodeParams& s = model->queried_params[n];
  s.bytes.assign(operations, operations + p->count * sizeof(Operation));
  p->paramArray = (Operation*)s.bytes.data();
  return CUDA_SUCCESS;
}
