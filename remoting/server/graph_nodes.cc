// Nodes that hold something of the program's: made, changed, and read back.
#include <algorithm>
#include <cstring>

#include "server/session.h"

namespace busbar::server {

namespace {
enum class What : uint32_t { add = 0, set = 1, exec_set = 2 };

struct Place {
  What what;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  std::vector<CUgraphNode> dependencies;
  const CUgraphNode* list() const { return dependencies.empty() ? nullptr : dependencies.data(); }
};

bool read_place(Session& s, wire::Decoder& in, Place& p) {
  p.what = (What)in.get<uint32_t>();
  uint32_t count = in.get<uint32_t>();
  p.graph = in.get<CUgraph>();
  p.exec = in.get<CUgraphExec>();
  p.node = in.get<CUgraphNode>();
  if (!in.elements(p.dependencies, count)) return false;
  for (auto d : p.dependencies) if (!s.objects.known(ObjectKind::node, (uint64_t)d)) return false;
  switch (p.what) {
    case What::add: return s.objects.known(ObjectKind::graph, (uint64_t)p.graph);
    case What::set: return s.objects.known(ObjectKind::node, (uint64_t)p.node);
    case What::exec_set: return s.objects.known(ObjectKind::node, (uint64_t)p.node) && s.objects.known(ObjectKind::exec, (uint64_t)p.exec);
  }
  return false;
}

// A driver may lack a function of a newer version.
#define CALL(name, ...) (s.cu.name ? s.cu.name(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)

void answer(Session& s, uint64_t reply, const Place& p, CUresult r, CUgraphNode made) {
  if (made) s.objects.add(ObjectKind::node, (uint64_t)made, (uint64_t)p.graph);
  std::string out;
  append(out, made);
  s.reply(reply, r, out);
}

CUgraphNode read_node(Session& s, wire::Decoder& in, uint64_t& reply) {
  reply = in.get<uint64_t>();
  auto n = in.get<CUgraphNode>();
  if (in.ok() && s.objects.known(ObjectKind::node, (uint64_t)n)) return n;
  s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  return nullptr;
}
}  // namespace

// place, function, grid, block, shared bytes, parameter bytes, parameters
void kernel_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = s.function_named(in.get<uint32_t>());
  p.gridDimX = in.get<uint32_t>(); p.gridDimY = in.get<uint32_t>(); p.gridDimZ = in.get<uint32_t>();
  p.blockDimX = in.get<uint32_t>(); p.blockDimY = in.get<uint32_t>(); p.blockDimZ = in.get<uint32_t>();
  p.sharedMemBytes = in.get<uint32_t>();
  size_t bytes = in.get<uint32_t>();
  const uint8_t* block = in.raw(bytes);
  if (!in.ok() || !p.func) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  p.extra = extra;
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add ? CALL(cuGraphAddKernelNode, &made, place.graph, place.list(), place.dependencies.size(), &p)
             : place.what == What::set ? CALL(cuGraphKernelNodeSetParams, place.node, &p) : CALL(cuGraphExecKernelNodeSetParams, place.exec, place.node, &p);
  answer(s, reply, place, r, made);
}

// place, copy, which side is the program's, staging
void copy_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  auto p = in.get<CUDA_MEMCPY3D>();
  uint32_t mode = in.get<uint32_t>(), staging = in.get<uint32_t>();
  if (!in.ok() || mode > 2 || !s.accepts(p, mode == 1, mode == 2)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (mode && !s.stage_copy(p, mode == 1, staging)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add ? CALL(cuGraphAddMemcpyNode, &made, place.graph, place.list(), place.dependencies.size(), &p, s.current)
             : place.what == What::set ? CALL(cuGraphMemcpyNodeSetParams, place.node, &p) : CALL(cuGraphExecMemcpyNodeSetParams, place.exec, place.node, &p, s.current);
  answer(s, reply, place, r, made);
}

// place, number of the program's function
void host_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  uint64_t id = in.get<uint64_t>();
  if (!in.ok()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS p{graph_callback(), graph_callback_data(s, id)};
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add ? CALL(cuGraphAddHostNode, &made, place.graph, place.list(), place.dependencies.size(), &p)
             : place.what == What::set ? CALL(cuGraphHostNodeSetParams, place.node, &p) : CALL(cuGraphExecHostNodeSetParams, place.exec, place.node, &p);
  answer(s, reply, place, r, made);
}

// ---- read back ----
// node -> function, grid, block, shared bytes, parameter bytes, parameters
void kernel_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_KERNEL_NODE_PARAMS p{};
  if (CUresult r = CALL(cuGraphKernelNodeGetParams, n, &p)) return s.reply(reply, r);
  uint32_t f = s.functions.number(p.func ? p.func : (CUfunction)p.kern);
  if (!f) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  std::string block;
  size_t offset, bytes;
  for (uint32_t i = 0; p.kernelParams && i < 4096 && s.cu.cuFuncGetParamInfo(s.function_named(f), i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
    if (offset + bytes > 32764) return s.reply(reply, CUDA_ERROR_UNKNOWN);
    block.resize(std::max(block.size(), offset + bytes));
    std::memcpy(block.data() + offset, p.kernelParams[i], bytes);
  }
  for (void** e = p.kernelParams ? nullptr : p.extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE) block.resize(*(size_t*)e[1]);
  }
  for (void** e = p.kernelParams ? nullptr : p.extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) std::memcpy(block.data(), e[1], block.size());
  }
  std::string out;
  append(out, f);
  for (uint32_t v : {p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes, (uint32_t)block.size()}) append(out, v);
  s.reply(reply, CUDA_SUCCESS, out + block);
}

// node -> copy, and the staging buffer that stands for the program's side, 0 if there is none
void copy_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_MEMCPY3D p{};
  if (CUresult r = CALL(cuGraphMemcpyNodeGetParams, n, &p)) return s.reply(reply, r);
  uint32_t staging = 0;
  if (p.srcMemoryType == CU_MEMORYTYPE_HOST) staging = s.graph_memory.number(p.srcHost);
  if (p.dstMemoryType == CU_MEMORYTYPE_HOST) staging = s.graph_memory.number(p.dstHost);
  p.srcHost = nullptr;                                       // addresses of this process are nobody's business
  p.dstHost = nullptr;
  std::string out;
  append(out, p);
  append(out, staging);
  s.reply(reply, CUDA_SUCCESS, out);
}

void host_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_HOST_NODE_PARAMS p{};
  CUresult r = CALL(cuGraphHostNodeGetParams, n, &p);
  std::lock_guard lock(s.graph_functions.mutex);
  auto it = s.graph_functions.known.find(p.userData);
  std::string out;
  append(out, it == s.graph_functions.known.end() ? (uint64_t)0 : it->second->id);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
