// Nodes whose parameters hold something of the program's: kernels (functions, blocks of
// parameters), copies (host memory), host functions. The other kinds are generated.

#include "client/copy.h"
#include "client/graph_function.h"
#include "client/launch.h"
#include "client/node_calls.h"
#include "client/node_place.h"

namespace busbar::client {

CUresult begin_node(Call& call, const Place& p) {
  if (CUresult r = call.begin_anywhere()) return r;
  if (p.what == What::add) {
    if (!call.known(ObjectKind::graph, (uint64_t)p.graph) || (p.count && !p.dependencies) ||
        p.count > kMostElements)
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < p.count; ++i)
      if (!call.known(ObjectKind::node, (uint64_t)p.dependencies[i]))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  if (!call.known(ObjectKind::node, (uint64_t)p.node) ||
      (p.what == What::exec_set && !call.known(ObjectKind::exec, (uint64_t)p.exec)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

void put_place(NodeRequest& e, const Place& p) {
  e.put((uint32_t)p.what)
      .put((uint32_t)p.count)
      .put((uint64_t)p.graph)
      .put((uint64_t)p.exec)
      .put((uint64_t)p.node);
  if (p.count) e.raw(p.dependencies, (uint32_t)(p.count * sizeof *p.dependencies));
}

CUresult finish_node(Call& call, NodeRequest& e, const Place& p, CUgraphNode* out,
                     wire::Decoder* rest) {
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (call.status() || !out) return call.status();
  *out = answer.get<CUgraphNode>();
  call.remember(ObjectKind::node, (uint64_t)*out, (uint64_t)p.graph);
  if (rest) *rest = answer;
  return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult ask_node(Call& call, wire::Op op, CUgraphNode n, wire::Decoder& answer) {
  if (CUresult r = call.begin_anywhere()) return r;
  if (!call.known(ObjectKind::node, (uint64_t)n)) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<> e(op, call.context_id());
  e.put(call.reply_id()).put((uint64_t)n);
  answer = call.answer(e.finish(), e.size());
  return call.status();
}

namespace {
CUresult kernel_node(const Place& place, const CUDA_KERNEL_NODE_PARAMS* p, CUgraphNode* out) {
  if (!p || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node(call, place)) return r;
  CUresult why;
  Function* f = function_of(p->func ? p->func : (CUfunction)p->kern, why);
  if (!f) return why;
  CUlaunchConfig c{p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
                   p->blockDimZ, p->sharedMemBytes, nullptr,     nullptr,      0};
  if (!valid_geometry(f->module->context->device, f, c) || (p->kernelParams && p->extra))
    return CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  size_t bytes = f->parameter_bytes;
  if (p->extra) {
    if (CUresult r = packed_buffer(p->extra, buffer, bytes)) return r;
  } else if (!p->kernelParams && f->parameter_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes < f->parameter_bytes || place.count * 8 + bytes > kLongRequest - 256)
    return CUDA_ERROR_INVALID_VALUE;
  NodeRequest e(wire::Op::kernel_node, f->module->context->id);
  e.put(call.reply_id());
  put_place(e, place);
  e.put(f->id)
      .put(c.gridDimX)
      .put(c.gridDimY)
      .put(c.gridDimZ)
      .put(c.blockDimX)
      .put(c.blockDimY)
      .put(c.blockDimZ)
      .put(c.sharedMemBytes)
      .put((uint32_t)bytes);
  if (buffer)
    e.raw(buffer, (uint32_t)bytes);
  else
    pack(f, p->kernelParams, [&](const void* from, uint32_t n) { e.raw(from, n); });
  return finish_node(call, e, place, out);
}

// What the node's copy read or wrote before is no longer touched.
void drop_host_copy(CUgraphNode n, GraphModel& model) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (ask_node(call, wire::Op::copy_node_params, n, d)) return;
  d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  std::lock_guard lock(model.mutex);
  std::erase_if(model.copies,
                [&](auto& c) { return c.node == n || (staging && c.staging == staging); });
}

CUresult copy_node(const Place& place, const CUDA_MEMCPY3D* p, GraphModel& model,
                   CUgraphNode* out) {
  if (!p || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node(call, place)) return r;
  CopySides c;
  if (CUresult r = resolve_copy(*p, c)) return r;
  if (c.from_host && c.to_host) return CUDA_ERROR_NOT_SUPPORTED;
  bool host = c.from_host || c.to_host;
  if (place.what != What::add) drop_host_copy(place.node, model);
  uint32_t staging = host ? add_host_copy(call.link(), model, c.from_host,
                                          c.from_host ? c.source : c.target, place.node)
                          : 0;
  NodeRequest e(wire::Op::copy_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put(c.copy).put((uint32_t)(c.from_host ? 1 : c.to_host ? 2 : 0)).put(staging);
  CUresult r = finish_node(call, e, place, out);
  std::lock_guard lock(model.mutex);
  if (!r && out)
    for (auto& known : model.copies)
      if (known.staging == staging) known.node = *out;
  if (r)
    std::erase_if(model.copies, [&](auto& known) { return staging && known.staging == staging; });
  return r;
}

CUresult host_node(const Place& place, const CUDA_HOST_NODE_PARAMS* p,
                   const std::shared_ptr<GraphModel>& model, CUgraphNode* out) {
  if (!p || !p->fn || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin_node(call, place)) return r;
  NodeRequest e(wire::Op::host_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put(keep_graph_function(call.link(), p->fn, p->userData, model));
  return finish_node(call, e, place, out);
}

Function* function_numbered(uint32_t id) {
  return session()->function_numbers.get(id);
}

CUresult kernel_params(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::kernel_node_params, n, d)) return r;
  Function* f = function_numbered(d.get<uint32_t>());
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
  auto model = model_with(n);
  std::lock_guard lock(model->mutex);
  Shown& s = model->shown[n];
  s.bytes.assign(block, block + bytes);
  s.pointers.clear();
  for (auto& parameter : f->layout) s.pointers.push_back(s.bytes.data() + parameter.offset);
  p.kernelParams = s.pointers.data();
  return CUDA_SUCCESS;
}

CUresult copy_params(CUgraphNode n, CUDA_MEMCPY3D& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::copy_node_params, n, d)) return r;
  p = d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  if (!d.ok() || !staging) return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  auto model = model_with(n);
  std::lock_guard lock(model->mutex);
  for (auto& c : model->copies) {
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
}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

static CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
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
  return kernel_node({What::add, g, d, n}, p, out);
}
API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = newer(*p);
  return kernel_node({What::add, g, d, n}, &q, out);
}
API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) {
  Place at = instead_of(n);
  return kernel_node(at, p, nullptr);
}
API CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = newer(*p);
  return cuGraphKernelNodeSetParams_v2(n, &q);
}
API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                               const CUDA_KERNEL_NODE_PARAMS* p) {
  Place at = instead_of(e, n);
  return kernel_node(at, p, nullptr);
}
API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = newer(*p);
  return cuGraphExecKernelNodeSetParams_v2(e, n, &q);
}
API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS* p) {
  return p ? kernel_params(n, *p) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS q;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = kernel_params(n, q);
  if (!r) std::memcpy(p, &q, sizeof *p);
  return r;
}

API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_MEMCPY3D* p, CUcontext) {
  return copy_node({What::add, g, d, n}, p, *model_of(g), out);
}
API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D* p) {
  Place at = instead_of(n);
  return copy_node(at, p, *model_with(n), nullptr);
}
API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                            CUcontext) {
  Place at = instead_of(e, n);
  return copy_node(at, p, *model_of(e), nullptr);
}
API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D* p) {
  return p ? copy_params(n, *p) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                const CUDA_HOST_NODE_PARAMS* p) {
  return host_node({What::add, g, d, n}, p, model_of(g), out);
}
API CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) {
  Place at = instead_of(n);
  return host_node(at, p, model_with(n), nullptr);
}
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n,
                                          const CUDA_HOST_NODE_PARAMS* p) {
  Place at = instead_of(e, n);
  return host_node(at, p, model_of(e), nullptr);
}
API CUresult cuGraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::host_node_params, n, d)) return r;
  return graph_function(d.get<uint64_t>(), *p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
