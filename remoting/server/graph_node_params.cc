// Parameters of graph nodes, read back for the program.
#include <algorithm>
#include <cstring>

#include "checked_size.h"
#include "server/graph_nodes.h"
#include "server/handlers.h"
#include "server/optional_call.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxParameters = 32764;  // one for each byte
constexpr size_t kMaxParameterBytes = 32764;

// Reads the node of a request. Null after an error reply.
CUgraphNode read_node(Session& s, wire::Decoder& in, uint64_t& reply) {
  reply = in.get<uint64_t>();
  auto n = in.get<CUgraphNode>();
  if (in.ok() && s.objects.contains(ObjectKind::node, (uint64_t)n)) return n;
  s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  return nullptr;
}

CUresult event_of_node(Session& s, CUgraphNode n, CUevent* event) {
  CUgraphNodeType type;
  if (CUresult r = optional_call(s.cu.cuGraphNodeGetType, n, &type)) return r;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return optional_call(s.cu.cuGraphEventRecordNodeGetEvent, n, event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return optional_call(s.cu.cuGraphEventWaitNodeGetEvent, n, event);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// The parameters as one block, from the list of CU_LAUNCH_PARAM_* entries.
std::string parameters_of_extra(void** extra) {
  std::string block;
  const void* from = nullptr;
  for (void** e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE) block.resize(*(size_t*)e[1]);
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) from = e[1];
  }
  if (from) std::memcpy(block.data(), from, block.size());
  return block;
}

// The parameters of a kernel node as one block. False if they are larger than CUDA permits.
bool read_parameters(Session& s, uint32_t function, const CUDA_KERNEL_NODE_PARAMS& p,
                     std::string& block) {
  if (!p.kernelParams) {
    block = parameters_of_extra(p.extra);
    return true;
  }
  CUfunction f = s.function_handle(function);
  if (!f) return false;
  size_t offset, bytes;
  for (uint32_t i = 0; i < kMaxParameters; ++i) {
    if (s.cu.cuFuncGetParamInfo(f, i, &offset, &bytes)) return true;
    CheckedSize end = CheckedSize(offset) + bytes;
    if (!end.within(kMaxParameterBytes)) return false;
    block.resize(std::max<size_t>(block.size(), end.value()));
    std::memcpy(block.data() + offset, p.kernelParams[i], bytes);
  }
  return true;
}
}  // namespace

// node -> flags, number of operations, operations
void handlers::batch_mem_op_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  if (CUresult r = optional_call(s.cu.cuGraphBatchMemOpNodeGetParams, n, &p))
    return s.reply(reply, r);
  std::string out;
  append(out, p.flags);
  uint32_t count = p.paramArray ? std::min(p.count, kMaxBatchMemOps) : 0;
  append(out, count);
  out.append((const char*)p.paramArray, count * sizeof *p.paramArray);
  s.reply(reply, CUDA_SUCCESS, out);
}

// node -> the client's id of the event that it records or waits for
void handlers::node_event(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUevent found = nullptr;
  if (CUresult r = event_of_node(s, n, &found)) return s.reply(reply, r);
  for (auto& [id, e] : s.events) {
    if (!e.current || e.current->handle != found) continue;
    std::string out;
    append(out, id);
    return s.reply(reply, CUDA_SUCCESS, out);
  }
  s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
}

// node -> function, grid, block, shared bytes, parameter bytes, parameters
void handlers::kernel_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_KERNEL_NODE_PARAMS p{};
  if (CUresult r = optional_call(s.cu.cuGraphKernelNodeGetParams, n, &p)) return s.reply(reply, r);
  uint32_t f = s.functions.id_of(p.func ? p.func : (CUfunction)p.kern);
  if (!f) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  std::string parameters;
  if (!read_parameters(s, f, p, parameters)) return s.reply(reply, CUDA_ERROR_UNKNOWN);
  std::string out;
  append(out, f);
  for (uint32_t v : {p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
                     p.sharedMemBytes, (uint32_t)parameters.size()})
    append(out, v);
  s.reply(reply, CUDA_SUCCESS, out + parameters);
}

// node -> copy, and the graph buffer in the place of the program's side (0: none)
void handlers::copy_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_MEMCPY3D p{};
  if (CUresult r = optional_call(s.cu.cuGraphMemcpyNodeGetParams, n, &p)) return s.reply(reply, r);
  uint32_t buffer = 0;
  if (p.srcMemoryType == CU_MEMORYTYPE_HOST) buffer = s.graph_buffers.id_of(p.srcHost);
  if (p.dstMemoryType == CU_MEMORYTYPE_HOST) buffer = s.graph_buffers.id_of(p.dstHost);
  p.srcHost = nullptr;  // never reveal addresses of this process
  p.dstHost = nullptr;
  std::string out;
  append(out, p);
  append(out, buffer);
  s.reply(reply, CUDA_SUCCESS, out);
}

// node -> host function (0: none of the program)
void handlers::host_node_params(Session& s, wire::Decoder in) {
  uint64_t reply = 0;
  CUgraphNode n = read_node(s, in, reply);
  if (!n) return;
  CUDA_HOST_NODE_PARAMS p{};
  CUresult r = optional_call(s.cu.cuGraphHostNodeGetParams, n, &p);
  std::lock_guard lock(s.graph_functions.mutex);
  auto it = s.graph_functions.known.find(p.userData);
  std::string out;
  append(out, it == s.graph_functions.known.end() ? (uint64_t)0 : it->second->id);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
