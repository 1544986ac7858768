// Nodes whose parameters hold something of the program's: kernels (functions, blocks of parameters), copies (host memory),
// host functions. The other kinds are generated.
#include <unordered_map>

#include "client/copy.h"
#include "client/graph_function.h"
#include "client/launch.h"
#include "client/node_calls.h"

namespace busbar::client {

namespace {
enum class What : uint32_t { add = 0, set = 1, exec_set = 2 };

// Where a node goes: into a graph behind its dependencies, or in the place of another's parameters.
struct Place {
  What what;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 0;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
};

CUresult begin(Call& call, const Place& p) {
  if (CUresult r = call.begin_anywhere()) return r;
  if (p.what == What::add) {
    if (!call.known(ObjectKind::graph, (uint64_t)p.graph) || (p.count && !p.dependencies) || p.count > kMostElements) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < p.count; ++i) if (!call.known(ObjectKind::node, (uint64_t)p.dependencies[i])) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  if (!call.known(ObjectKind::node, (uint64_t)p.node) || (p.what == What::exec_set && !call.known(ObjectKind::exec, (uint64_t)p.exec))) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

using Request = wire::Encoder<kLongRequest>;

void put_place(Request& e, const Place& p) {
  e.put((uint32_t)p.what).put((uint32_t)p.count).put((uint64_t)p.graph).put((uint64_t)p.exec).put((uint64_t)p.node);
  if (p.count) e.raw(p.dependencies, (uint32_t)(p.count * sizeof *p.dependencies));
}

// The answer to an added node is the node.
CUresult finish(Call& call, Request& e, const Place& p, CUgraphNode* out) {
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (call.status() || !out) return call.status();
  *out = answer.get<CUgraphNode>();
  call.remember(ObjectKind::node, (uint64_t)*out, (uint64_t)p.graph);
  return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult kernel_node(const Place& place, const CUDA_KERNEL_NODE_PARAMS* p, CUgraphNode* out) {
  if (!p || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin(call, place)) return r;
  CUresult why;
  Function* f = function_of(p->func ? p->func : (CUfunction)p->kern, why);
  if (!f) return why;
  CUlaunchConfig c{p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ, p->sharedMemBytes, nullptr, nullptr, 0};
  if (!valid_geometry(f->module->context->device, f, c) || (p->kernelParams && p->extra)) return CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  size_t bytes = f->parameter_bytes;
  if (p->extra) { if (CUresult r = packed_buffer(p->extra, buffer, bytes)) return r; }
  else if (!p->kernelParams && f->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes < f->parameter_bytes || place.count * 8 + bytes > kLongRequest - 256) return CUDA_ERROR_INVALID_VALUE;
  Request e(wire::Op::kernel_node, f->module->context->id);
  e.put(call.reply_id());
  put_place(e, place);
  e.put(f->id).put(c.gridDimX).put(c.gridDimY).put(c.gridDimZ).put(c.blockDimX).put(c.blockDimY).put(c.blockDimZ).put(c.sharedMemBytes).put((uint32_t)bytes);
  if (buffer) e.raw(buffer, (uint32_t)bytes);
  else pack(f, p->kernelParams, [&](const void* from, uint32_t n) { e.raw(from, n); });
  return finish(call, e, place, out);
}

CUresult ask_node(Call& call, wire::Op op, CUgraphNode n, wire::Decoder& answer) {
  if (CUresult r = call.begin_anywhere()) return r;
  if (!call.known(ObjectKind::node, (uint64_t)n)) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<> e(op, call.context_id());
  e.put(call.reply_id()).put((uint64_t)n);
  answer = call.answer(e.finish(), e.size());
  return call.status();
}

// What the node's copy read or wrote before is no longer touched.
void drop_host_copy(CUgraphNode n, GraphModel& model) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (ask_node(call, wire::Op::copy_node_params, n, d)) return;
  d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  std::lock_guard lock(model.mutex);
  std::erase_if(model.copies, [&](auto& c) { return c.node == n || (staging && c.staging == staging); });
}

CUresult copy_node(const Place& place, const CUDA_MEMCPY3D* p, GraphModel& model, CUgraphNode* out) {
  if (!p || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin(call, place)) return r;
  CopySides c;
  if (CUresult r = resolve_copy(*p, c)) return r;
  if (c.from_host && c.to_host) return CUDA_ERROR_NOT_SUPPORTED;
  bool host = c.from_host || c.to_host;
  if (place.what != What::add) drop_host_copy(place.node, model);
  uint32_t staging = host ? add_host_copy(call.link(), model, c.from_host, c.from_host ? c.source : c.target, place.node) : 0;
  Request e(wire::Op::copy_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put(c.copy).put((uint32_t)(c.from_host ? 1 : c.to_host ? 2 : 0)).put(staging);
  CUresult r = finish(call, e, place, out);
  std::lock_guard lock(model.mutex);
  if (!r && out) for (auto& known : model.copies) if (known.staging == staging) known.node = *out;
  if (r) std::erase_if(model.copies, [&](auto& known) { return staging && known.staging == staging; });
  return r;
}

CUresult host_node(const Place& place, const CUDA_HOST_NODE_PARAMS* p, const std::shared_ptr<GraphModel>& model, CUgraphNode* out) {
  if (!p || !p->fn || (place.what == What::add && !out)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = begin(call, place)) return r;
  Request e(wire::Op::host_node, call.context_id());
  e.put(call.reply_id());
  put_place(e, place);
  e.put(keep_graph_function(call.link(), p->fn, p->userData, model));
  return finish(call, e, place, out);
}

// Parameters as the program may read them: they stay where they are until the next question about the same node.
struct Shown { std::vector<uint8_t> bytes; std::vector<void*> pointers; };
std::unordered_map<CUgraphNode, Shown>& shown() { static auto* m = new std::unordered_map<CUgraphNode, Shown>; return *m; }
std::mutex& shown_mutex() { static auto* m = new std::mutex; return *m; }

Function* function_numbered(uint32_t id) { return session()->function_numbers.get(id); }

CUresult kernel_params(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::kernel_node_params, n, d)) return r;
  Function* f = function_numbered(d.get<uint32_t>());
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  p = {};
  p.func = (CUfunction)f->handle;
  p.gridDimX = d.get<uint32_t>(); p.gridDimY = d.get<uint32_t>(); p.gridDimZ = d.get<uint32_t>();
  p.blockDimX = d.get<uint32_t>(); p.blockDimY = d.get<uint32_t>(); p.blockDimZ = d.get<uint32_t>();
  p.sharedMemBytes = d.get<uint32_t>();
  uint32_t bytes = d.get<uint32_t>();
  const uint8_t* block = d.raw(bytes);
  if (!d.ok() || bytes < f->parameter_bytes) return CUDA_ERROR_UNKNOWN;
  std::lock_guard lock(shown_mutex());
  Shown& s = shown()[n];
  s.bytes.assign(block, block + bytes);
  s.pointers.clear();
  for (auto& parameter : f->layout) s.pointers.push_back(s.bytes.data() + parameter.offset);
  p.kernelParams = s.pointers.data();
  return CUDA_SUCCESS;
}

CUgraph graph_of(CUgraphNode n) { CUgraph g = nullptr; return cuGraphNodeGetContainingGraph(n, &g) ? nullptr : g; }

CUresult copy_params(CUgraphNode n, CUDA_MEMCPY3D& p) {
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::copy_node_params, n, d)) return r;
  p = d.get<CUDA_MEMCPY3D>();
  uint32_t staging = d.get<uint32_t>();
  if (!d.ok() || !staging) return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  auto model = model_of(graph_of(n));
  std::lock_guard lock(model->mutex);
  for (auto& c : model->copies) {
    if (c.staging != staging) continue;
    if (c.in) { p.srcHost = c.rows.base; p.srcPitch = c.rows.pitch; p.srcHeight = c.rows.pitch ? c.rows.slice_pitch / c.rows.pitch : 0; }
    else { p.dstHost = c.rows.base; p.dstPitch = c.rows.pitch; p.dstHeight = c.rows.pitch ? c.rows.slice_pitch / c.rows.pitch : 0; }
  }
  return CUDA_SUCCESS;
}
}  // namespace
}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

static CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1& p) { CUDA_KERNEL_NODE_PARAMS q{}; std::memcpy(&q, &p, sizeof p); return q; }

#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
API CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, const CUDA_KERNEL_NODE_PARAMS* p) { return kernel_node({What::add, g, d, n}, p, out); }
API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, const CUDA_KERNEL_NODE_PARAMS_v1* p) { if (!p) return CUDA_ERROR_INVALID_VALUE; auto q = newer(*p); return kernel_node({What::add, g, d, n}, &q, out); }
API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) { Place at{What::set}; at.node = n; return kernel_node(at, p, nullptr); }
API CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1* p) { if (!p) return CUDA_ERROR_INVALID_VALUE; auto q = newer(*p); return cuGraphKernelNodeSetParams_v2(n, &q); }
API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) { Place at{What::exec_set}; at.exec = e; at.node = n; return kernel_node(at, p, nullptr); }
API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1* p) { if (!p) return CUDA_ERROR_INVALID_VALUE; auto q = newer(*p); return cuGraphExecKernelNodeSetParams_v2(e, n, &q); }
API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS* p) { return p ? kernel_params(n, *p) : CUDA_ERROR_INVALID_VALUE; }
API CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS q;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = kernel_params(n, q);
  if (!r) std::memcpy(p, &q, sizeof *p);
  return r;
}

API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, const CUDA_MEMCPY3D* p, CUcontext) { return copy_node({What::add, g, d, n}, p, *model_of(g), out); }
API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D* p) { Place at{What::set}; at.node = n; return copy_node(at, p, *model_of(graph_of(n)), nullptr); }
API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p, CUcontext) { Place at{What::exec_set}; at.exec = e; at.node = n; return copy_node(at, p, *model_of(e), nullptr); }
API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D* p) { return p ? copy_params(n, *p) : CUDA_ERROR_INVALID_VALUE; }

API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, const CUDA_HOST_NODE_PARAMS* p) { return host_node({What::add, g, d, n}, p, model_of(g), out); }
API CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) { Place at{What::set}; at.node = n; return host_node(at, p, model_of(graph_of(n)), nullptr); }
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) { Place at{What::exec_set}; at.exec = e; at.node = n; return host_node(at, p, model_of(e), nullptr); }
API CUresult cuGraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  wire::Decoder d(nullptr, 0);
  if (CUresult r = ask_node(call, wire::Op::host_node_params, n, d)) return r;
  return graph_function(d.get<uint64_t>(), *p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- the form for all kinds ----
static CUresult add_any(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, CUgraphNodeParams* p) {
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: { CUDA_KERNEL_NODE_PARAMS q; static_assert(sizeof q == sizeof p->kernel); std::memcpy(&q, &p->kernel, sizeof q); return cuGraphAddKernelNode_v2(out, g, d, n, &q); }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphAddMemcpyNode(out, g, d, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: { CUDA_MEMSET_NODE_PARAMS q{}; std::memcpy(&q, &p->memset, sizeof q); return cuGraphAddMemsetNode(out, g, d, n, &q, p->memset.ctx); }
    case CU_GRAPH_NODE_TYPE_HOST: { CUDA_HOST_NODE_PARAMS q{p->host.fn, p->host.userData}; return cuGraphAddHostNode(out, g, d, n, &q); }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(out, g, d, n, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(out, g, d, n);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphAddEventWaitNode(out, g, d, n, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return cuGraphAddEventRecordNode(out, g, d, n, p->eventRecord.event);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

#undef cuGraphAddNode
API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* d, const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* p) {
  if (!out || !p) return CUDA_ERROR_INVALID_VALUE;
  if (!edges) return add_any(out, g, d, n, p);
  if (CUresult r = add_any(out, g, nullptr, 0, p)) return r;
  std::vector<CUgraphNode> to(n, *out);
  return n ? cuGraphAddDependencies_v2(g, d, to.data(), edges, n) : CUDA_SUCCESS;
}
API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n, CUgraphNodeParams* p) { return cuGraphAddNode_v2(out, g, d, nullptr, n, p); }
API CUresult cuGraphAddNode_v3(CUgraphNode* out, CUgraph g, const CUgraphNode* d, const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* p) { return cuGraphAddNode_v2(out, g, d, edges, n, p); }

#undef cuGraphNodeSetParams
API CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return cuGraphKernelNodeSetParams_v2(n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphMemcpyNodeSetParams(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: return cuGraphMemsetNodeSetParams(n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST: return cuGraphHostNodeSetParams(n, (const CUDA_HOST_NODE_PARAMS*)&p->host);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}
API CUresult cuGraphNodeSetParams_v2(CUgraphNode n, CUgraphNodeParams* p) { return cuGraphNodeSetParams(n, p); }
API CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return cuGraphExecKernelNodeSetParams_v2(e, n, (const CUDA_KERNEL_NODE_PARAMS*)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphExecMemcpyNodeSetParams(e, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: return cuGraphExecMemsetNodeSetParams(e, n, (const CUDA_MEMSET_NODE_PARAMS*)&p->memset, p->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST: return cuGraphExecHostNodeSetParams(e, n, (const CUDA_HOST_NODE_PARAMS*)&p->host);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}
