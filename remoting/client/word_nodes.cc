// Nodes that write words and wait for them, as cuStreamBatchMemOp does on a stream.
#include <cstring>

#include "client/node_place.h"

namespace busbar::client {

namespace {
constexpr unsigned kMostWords = 256;
using Word = CUstreamBatchMemOpParams;

// The address of a word that it names; 0 for one that names none.
CUresult check(const Word& w) {
  size_t bytes = 4;
  CUdeviceptr p = w.waitValue.address;  // at the same place in each form
  switch (w.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: bytes = 8; break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: break;
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return p % bytes || !session()->addresses.device_range(p, bytes) ? CUDA_ERROR_INVALID_VALUE
                                                                   : CUDA_SUCCESS;
}

CUresult words_node(const Place& place, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p, CUgraphNode* out) {
  if (!p || (place.what == What::add && !out) || p->count > kMostWords || p->flags ||
      (p->count && !p->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node(call, place)) return r;
  for (unsigned i = 0; i < p->count; ++i)
    if (CUresult r = check(p->paramArray[i])) return r;
  if (place.count * 8 + p->count * sizeof(Word) > kLongRequest - 256)
    return CUDA_ERROR_INVALID_VALUE;
  NodeRequest e(wire::Op::words_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put(p->flags).put(p->count);
  e.raw(p->paramArray, (uint32_t)(p->count * sizeof(Word)));
  return finish_node(call, e, place, out);
}
}  // namespace

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return words_node({What::add, g, d, n}, p, out);
}
API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return words_node(instead_of(n), p, nullptr);
}
API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec e, CUgraphNode n,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return words_node(instead_of(e, n), p, nullptr);
}
API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::words_node_params, n, d)) return r;
  *p = {};
  p->ctx = call.context() ? (CUcontext)call.context()->handle : nullptr;
  p->flags = d.get<uint32_t>();
  p->count = d.get<uint32_t>();
  const uint8_t* words = d.raw(p->count * sizeof(Word));
  if (!d.ok()) return CUDA_ERROR_UNKNOWN;
  auto model = model_with(n);
  std::lock_guard lock(model->mutex);
  Shown& s = model->shown[n];
  s.bytes.assign(words, words + p->count * sizeof(Word));
  p->paramArray = (Word*)s.bytes.data();
  return CUDA_SUCCESS;
}
