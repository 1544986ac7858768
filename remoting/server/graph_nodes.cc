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
  for (auto d : p.dependencies)
    if (!s.objects.known(ObjectKind::node, (uint64_t)d)) return false;
  switch (p.what) {
    case What::add: return s.objects.known(ObjectKind::graph, (uint64_t)p.graph);
    case What::set: return s.objects.known(ObjectKind::node, (uint64_t)p.node);
    case What::exec_set:
      return s.objects.known(ObjectKind::node, (uint64_t)p.node) &&
             s.objects.known(ObjectKind::exec, (uint64_t)p.exec);
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
  p.gridDimX = in.get<uint32_t>();
  p.gridDimY = in.get<uint32_t>();
  p.gridDimZ = in.get<uint32_t>();
  p.blockDimX = in.get<uint32_t>();
  p.blockDimY = in.get<uint32_t>();
  p.blockDimZ = in.get<uint32_t>();
  p.sharedMemBytes = in.get<uint32_t>();
  size_t bytes = in.get<uint32_t>();
  const uint8_t* block = in.raw(bytes);
  if (!in.ok() || !p.func) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)block, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  p.extra = extra;
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add ? CALL(cuGraphAddKernelNode, &made, place.graph,
                                              place.list(), place.dependencies.size(), &p)
               : place.what == What::set
                   ? CALL(cuGraphKernelNodeSetParams, place.node, &p)
                   : CALL(cuGraphExecKernelNodeSetParams, place.exec, place.node, &p);
  answer(s, reply, place, r, made);
}

// place, copy, which side is the program's, staging
void copy_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  auto p = in.get<CUDA_MEMCPY3D>();
  uint32_t mode = in.get<uint32_t>(), staging = in.get<uint32_t>();
  if (!in.ok() || mode > 2 || !s.accepts(p, mode == 1, mode == 2))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (mode && !s.stage_copy(p, mode == 1, staging)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add
                   ? CALL(cuGraphAddMemcpyNode, &made, place.graph, place.list(),
                          place.dependencies.size(), &p, s.current)
               : place.what == What::set
                   ? CALL(cuGraphMemcpyNodeSetParams, place.node, &p)
                   : CALL(cuGraphExecMemcpyNodeSetParams, place.exec, place.node, &p, s.current);
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
  CUresult r = place.what == What::add ? CALL(cuGraphAddHostNode, &made, place.graph, place.list(),
                                              place.dependencies.size(), &p)
               : place.what == What::set
                   ? CALL(cuGraphHostNodeSetParams, place.node, &p)
                   : CALL(cuGraphExecHostNodeSetParams, place.exec, place.node, &p);
  answer(s, reply, place, r, made);
}

constexpr uint32_t kMostWords = 256, kMostBodies = 1024;
using Word = CUstreamBatchMemOpParams;

// place, flags, number of words, words: what cuStreamBatchMemOp does, as a node
void words_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  p.ctx = s.current;
  p.flags = in.get<uint32_t>();
  p.count = in.get<uint32_t>();
  std::vector<Word> words;
  if (p.count > kMostWords || !in.elements(words, p.count))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  p.paramArray = words.data();
  CUgraphNode made = nullptr;
  CUresult r = place.what == What::add ? CALL(cuGraphAddBatchMemOpNode, &made, place.graph,
                                              place.list(), place.dependencies.size(), &p)
               : place.what == What::set
                   ? CALL(cuGraphBatchMemOpNodeSetParams, place.node, &p)
                   : CALL(cuGraphExecBatchMemOpNodeSetParams, place.exec, place.node, &p);
  answer(s, reply, place, r, made);
}

// place, condition, kind, number of graphs -> node, the graphs that it may run
void conditional_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  Place place;
  if (!read_place(s, in, place) || place.what != What::add)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = in.get<uint64_t>();
  p.conditional.type = (CUgraphConditionalNodeType)in.get<uint32_t>();
  p.conditional.size = in.get<uint32_t>();
  p.conditional.ctx = s.current;
  if (!in.ok() || p.conditional.size > kMostBodies ||
      !s.objects.known(ObjectKind::condition, p.conditional.handle))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUgraphNode made = nullptr;
  if (CUresult r = CALL(cuGraphAddNode, &made, place.graph, place.list(), nullptr,
                        place.dependencies.size(), &p))
    return s.reply(reply, r);
  s.objects.add(ObjectKind::node, (uint64_t)made, (uint64_t)place.graph);
  std::string out;
  append(out, made);
  for (uint32_t i = 0; i < p.conditional.size; ++i) {
    CUgraph body = p.conditional.phGraph_out ? p.conditional.phGraph_out[i] : nullptr;
    s.objects.add(ObjectKind::graph, (uint64_t)body, (uint64_t)made);
    append(out, body);
  }
  s.reply(reply, CUDA_SUCCESS, out);
}

// ---- read back ----
void words_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  if (CUresult r = CALL(cuGraphBatchMemOpNodeGetParams, n, &p)) return s.reply(reply, r);
  std::string out;
  append(out, p.flags);
  append(out, p.paramArray ? std::min(p.count, kMostWords) : 0);
  if (p.paramArray)
    out.append((const char*)p.paramArray, std::min(p.count, kMostWords) * sizeof *p.paramArray);
  s.reply(reply, CUDA_SUCCESS, out);
}

// node -> the program's number of the event that it records or waits for
void node_event(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUgraphNodeType type;
  CUevent found = nullptr;
  CUresult r = CALL(cuGraphNodeGetType, n, &type);
  if (!r)
    r = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? CALL(cuGraphEventRecordNodeGetEvent, n, &found)
        : type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? CALL(cuGraphEventWaitNodeGetEvent, n, &found)
                                                : CUDA_ERROR_INVALID_VALUE;
  if (r) return s.reply(reply, r);
  for (auto& [id, e] : s.events) {
    if (!e.current || e.current->handle != found) continue;
    std::string out;
    append(out, id);
    return s.reply(reply, CUDA_SUCCESS, out);
  }
  s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
}

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
  for (uint32_t i = 0;
       p.kernelParams && i < 4096 &&
       s.cu.cuFuncGetParamInfo(s.function_named(f), i, &offset, &bytes) == CUDA_SUCCESS;
       ++i) {
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
  for (uint32_t v : {p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
                     p.sharedMemBytes, (uint32_t)block.size()})
    append(out, v);
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
  p.srcHost = nullptr;  // addresses of this process are nobody's business
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
