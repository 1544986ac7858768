// CUDA entry points: graph nodes whose parameters refer to the client: kernels (functions, blocks
// of parameters), copies (host memory) and host functions. The other kinds are generated.
#include <cstring>

#include "checked_size.h"
#include "client/graph_node_request.h"
#include "client/host_copy.h"
#include "client/host_function.h"
#include "client/kernel_params.h"
#include "client/library.h"
#include "client/mapped.h"
#include "client/row_copy.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

namespace {
CUresult set_kernel_node(const NodeTarget& target, const CUDA_KERNEL_NODE_PARAMS* p,
                         CUgraphNode* out) {
  if (!p || (target.change == NodeChange::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node_request(call, target)) return r;
  CUresult error;
  Function* f = find_function(p->func ? p->func : (CUfunction)p->kern, error);
  if (!f) return error;
  CUlaunchConfig c{p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
                   p->blockDimZ, p->sharedMemBytes, nullptr,     nullptr,      0};
  if (!valid_geometry(f->module->context->device, f, c)) return CUDA_ERROR_INVALID_VALUE;
  KernelParams params;
  if (CUresult r = resolve_params(f, p->kernelParams, p->extra, params)) return r;
  if (!(CheckedSize(target.count) * sizeof(CUgraphNode) + params.bytes).within(kMaxArrayBytes))
    return CUDA_ERROR_INVALID_VALUE;
  NodeEncoder e(wire::Op::kernel_node, f->module->context->id);
  e.put(call.reply_id());
  put_target(e, target);
  e.put(f->id)
      .put(c.gridDimX)
      .put(c.gridDimY)
      .put(c.gridDimZ)
      .put(c.blockDimX)
      .put(c.blockDimY)
      .put(c.blockDimZ)
      .put(c.sharedMemBytes)
      .put(params.bytes);
  put_params(f, params, [&](const void* from, uint32_t n) { e.raw(from, n); });
  const uint8_t* parameters = e.last(params.bytes);
  if (CUresult r = map_pinned_parameters(f->module->context, f, parameters, params.bytes)) return r;
  return finish_node_request(call, e, target, out);
}

// Removes the host memory of a copy node from the model, before its parameters change.
void drop_host_copy(CUgraphNode n, GraphModel& model) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (query_node(call, wire::Op::copy_node_params, n, d)) return;
  d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  MutexLock lock(model.mutex);
  std::erase_if(model.contents.copies,
                [&](auto& c) { return c.node == n || (staging && c.staging == staging); });
}

CUresult set_copy_node(const NodeTarget& target, const CUDA_MEMCPY3D* p, GraphModel& model,
                       CUgraphNode* out) {
  if (!p || (target.change == NodeChange::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node_request(call, target)) return r;
  CopySides c;
  if (CUresult r = resolve_copy(call.context(), *p, c)) return r;
  if (c.from_host && c.to_host) return CUDA_ERROR_NOT_SUPPORTED;
  bool host = c.from_host || c.to_host;
  if (target.change != NodeChange::add) drop_host_copy(target.node, model);
  uint32_t staging = 0;
  if (host)
    if (CUresult r = add_host_copy(call, model, c.from_host, c.from_host ? c.source : c.target,
                                   target.node, staging))
      return r;
  NodeEncoder e(wire::Op::copy_node, call.context_id());
  e.put(call.reply_id());
  put_target(e, target);
  e.put(c.copy).put((uint32_t)(c.from_host ? 1 : c.to_host ? 2 : 0)).put(staging);
  CUresult r = finish_node_request(call, e, target, out);
  MutexLock lock(model.mutex);
  if (!r && out)
    for (auto& known : model.contents.copies)
      if (known.staging == staging) known.node = *out;
  if (r)
    std::erase_if(model.contents.copies,
                  [&](auto& known) { return staging && known.staging == staging; });
  return r;
}

CUresult set_host_node(const NodeTarget& target, const CUDA_HOST_NODE_PARAMS* p,
                       const std::shared_ptr<GraphModel>& model, CUgraphNode* out) {
  if (!p || !p->fn || (target.change == NodeChange::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node_request(call, target)) return r;
  NodeEncoder e(wire::Op::host_node, call.context_id());
  e.put(call.reply_id());
  put_target(e, target);
  e.put(register_graph_function(call.link(), p->fn, p->userData, model));
  return finish_node_request(call, e, target, out);
}

CUresult get_kernel_params(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = query_node(call, wire::Op::kernel_node_params, n, d)) return r;
  Function* f = session()->functions_by_id.get(d.get<uint32_t>());
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  p = {};
  p.func = (CUfunction)f->handle;
  p.gridDimX = d.get<uint32_t>();
  p.gridDimY = d.get<uint32_t>();
  p.gridDimZ = d.get<uint32_t>();
  p.blockDimX = d.get<uint32_t>();
  p.blockDimY = d.get<uint32_t>();
  p.blockDimZ = d.get<uint32_t>();
  p.sharedMemBytes = d.get<uint32_t>();
  uint32_t bytes = d.get<uint32_t>();
  const uint8_t* block = d.raw(bytes);
  if (!d.ok() || bytes < f->parameter_bytes) return CUDA_ERROR_UNKNOWN;
  auto model = model_of_node(n);
  MutexLock lock(model->mutex);
  NodeParams& s = model->queried_params[n];
  s.bytes.assign(block, block + bytes);
  s.pointers.clear();
  for (auto& parameter : f->layout) s.pointers.push_back(s.bytes.data() + parameter.offset);
  p.kernelParams = s.pointers.data();
  return CUDA_SUCCESS;
}

CUresult get_copy_params(CUgraphNode n, CUDA_MEMCPY3D& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = query_node(call, wire::Op::copy_node_params, n, d)) return r;
  p = d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  if (!d.ok() || !staging) return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  auto model = model_of_node(n);
  MutexLock lock(model->mutex);
  for (auto& c : model->contents.copies) {
    if (c.staging != staging) continue;
    if (c.in) {
      p.srcHost = c.rows.base;
      p.srcPitch = c.rows.pitch;
      p.srcHeight = c.rows.pitch ? c.rows.slice_pitch / c.rows.pitch : 0;
    } else {
      p.dstHost = c.rows.base;
      p.dstPitch = c.rows.pitch;
      p.dstHeight = c.rows.pitch ? c.rows.slice_pitch / c.rows.pitch : 0;
    }
  }
  return CUDA_SUCCESS;
}
}  // namespace

static CUDA_KERNEL_NODE_PARAMS as_v2(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS q{};
  std::memcpy(&q, &p, sizeof p);
  return q;
}

#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
API CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS* p) {
  return set_kernel_node({NodeChange::add, g, d, n}, p, out);
}
API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return set_kernel_node({NodeChange::add, g, d, n}, &q, out);
}
API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) {
  return set_kernel_node(existing_node(n), p, nullptr);
}
API CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return cuGraphKernelNodeSetParams_v2(n, &q);
}
API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                               const CUDA_KERNEL_NODE_PARAMS* p) {
  return set_kernel_node(existing_node(e, n), p, nullptr);
}
API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return cuGraphExecKernelNodeSetParams_v2(e, n, &q);
}
API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS* p) {
  return p ? get_kernel_params(n, *p) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS q;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = get_kernel_params(n, q);
  if (!r) std::memcpy(p, &q, sizeof *p);
  return r;
}

API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_MEMCPY3D* p, CUcontext) {
  return set_copy_node({NodeChange::add, g, d, n}, p, *model_of(g), out);
}
API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D* p) {
  return set_copy_node(existing_node(n), p, *model_of_node(n), nullptr);
}
API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                            CUcontext) {
  return set_copy_node(existing_node(e, n), p, *model_of(e), nullptr);
}
API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D* p) {
  return p ? get_copy_params(n, *p) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                const CUDA_HOST_NODE_PARAMS* p) {
  return set_host_node({NodeChange::add, g, d, n}, p, model_of(g), out);
}
API CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) {
  return set_host_node(existing_node(n), p, model_of_node(n), nullptr);
}
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n,
                                          const CUDA_HOST_NODE_PARAMS* p) {
  return set_host_node(existing_node(e, n), p, model_of(e), nullptr);
}
API CUresult cuGraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = query_node(call, wire::Op::host_node_params, n, d)) return r;
  return find_graph_function(d.get<uint64_t>(), *p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
