// Graph nodes that name memory, functions or events of the program: added and changed.
#include "server/graph_nodes.h"

#include <algorithm>

#include "server/copy_descriptor.h"
#include "server/handlers.h"
#include "server/optional_call.h"
#include "server/reply.h"
#include "server/session.h"
#include "wire/enumeration.h"

namespace busbar::server {

namespace {
enum class NodeAction : uint32_t { add = 0, set = 1, set_in_exec = 2 };

// The node that a request adds or changes.
struct NodeTarget {
  NodeAction action;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  std::vector<CUgraphNode> dependencies;
  const CUgraphNode* list() const { return dependencies.empty() ? nullptr : dependencies.data(); }
};

// Reads a target and checks its handles.
bool read_target(Session& s, wire::Decoder& in, NodeTarget& t) {
  t.action = (NodeAction)in.get<uint32_t>();
  uint32_t count = in.get<uint32_t>();
  t.graph = in.get<CUgraph>();
  t.exec = in.get<CUgraphExec>();
  t.node = in.get<CUgraphNode>();
  if (!in.elements(t.dependencies, count)) return false;
  for (auto d : t.dependencies)
    if (!s.objects.contains(ObjectKind::node, (uint64_t)d)) return false;
  switch (t.action) {
    case NodeAction::add: return s.objects.contains(ObjectKind::graph, (uint64_t)t.graph);
    case NodeAction::set: return s.objects.contains(ObjectKind::node, (uint64_t)t.node);
    case NodeAction::set_in_exec:
      return s.objects.contains(ObjectKind::node, (uint64_t)t.node) &&
             s.objects.contains(ObjectKind::exec, (uint64_t)t.exec);
  }
  return false;
}

// Adds or changes a node with the driver's functions for its kind, and replies with the new node.
// Some kinds take a context as well.
template <typename Add, typename Set, typename SetInExec, typename Parameters, typename... Context>
void apply(Session& s, uint64_t reply, const NodeTarget& t, Add add, Set set, SetInExec set_in_exec,
           const Parameters* p, Context... context) {
  CUgraphNode node = nullptr;
  CUresult r = CUDA_ERROR_INVALID_VALUE;
  switch (t.action) {
    case NodeAction::add:
      r = optional_call(add, &node, t.graph, t.list(), t.dependencies.size(), p, context...);
      break;
    case NodeAction::set: r = optional_call(set, t.node, p); break;
    case NodeAction::set_in_exec:
      r = optional_call(set_in_exec, t.exec, t.node, p, context...);
      break;
  }
  if (node) s.objects.add(ObjectKind::node, (uint64_t)node, (uint64_t)t.graph);
  std::string out;
  append(out, node);
  s.reply(reply, r, out);
}
}  // namespace

// target, function, grid, block, shared bytes, parameter bytes, parameters
void handlers::kernel_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  NodeTarget target;
  if (!read_target(s, in, target)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = s.function_handle(in.get<uint32_t>());
  p.gridDimX = in.get<uint32_t>();
  p.gridDimY = in.get<uint32_t>();
  p.gridDimZ = in.get<uint32_t>();
  p.blockDimX = in.get<uint32_t>();
  p.blockDimY = in.get<uint32_t>();
  p.blockDimZ = in.get<uint32_t>();
  p.sharedMemBytes = in.get<uint32_t>();
  size_t bytes = in.get<uint32_t>();
  const uint8_t* parameters = in.raw(bytes);
  if (!in.ok() || !p.func) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  p.extra = extra;
  apply(s, reply, target, s.cu.cuGraphAddKernelNode, s.cu.cuGraphKernelNodeSetParams,
        s.cu.cuGraphExecKernelNodeSetParams, &p);
}

// target, copy, program's side, graph buffer
void handlers::copy_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  NodeTarget target;
  if (!read_target(s, in, target)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  auto p = in.get<CUDA_MEMCPY3D>();
  auto side = (ProgramSide)in.get<uint32_t>();
  uint32_t buffer = in.get<uint32_t>();
  if (!in.ok() || !valid_copy(s, p, side)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (side != ProgramSide::none && !use_graph_buffer(s, p, side, buffer))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  apply(s, reply, target, s.cu.cuGraphAddMemcpyNode, s.cu.cuGraphMemcpyNodeSetParams,
        s.cu.cuGraphExecMemcpyNodeSetParams, &p, s.current);
}

// target, host function
void handlers::host_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  NodeTarget target;
  if (!read_target(s, in, target)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  uint64_t id = in.get<uint64_t>();
  if (!in.ok()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS p{graph_callback(), graph_callback_data(s, id)};
  if (!p.userData) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  apply(s, reply, target, s.cu.cuGraphAddHostNode, s.cu.cuGraphHostNodeSetParams,
        s.cu.cuGraphExecHostNodeSetParams, &p);
}

// target, flags, number of operations, operations
void handlers::batch_mem_op_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  NodeTarget target;
  if (!read_target(s, in, target)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  p.ctx = s.current;
  p.flags = in.get<uint32_t>();
  p.count = in.get<uint32_t>();
  std::vector<CUstreamBatchMemOpParams> operations;
  auto is_known = [](auto& operation) {
    return has_values(operation);
  };
  if (p.count > kMaxBatchMemOps || !in.elements(operations, p.count) ||
      !std::ranges::all_of(operations, is_known))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  p.paramArray = operations.data();
  s.work_waits = true;  // an operation may wait for a value
  apply(s, reply, target, s.cu.cuGraphAddBatchMemOpNode, s.cu.cuGraphBatchMemOpNodeSetParams,
        s.cu.cuGraphExecBatchMemOpNodeSetParams, &p);
}

// target, condition, kind, number of graphs -> node, its graphs
void handlers::conditional_node(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  NodeTarget target;
  if (!read_target(s, in, target) || target.action != NodeAction::add)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = in.get<uint64_t>();
  p.conditional.type = wire::take<CUgraphConditionalNodeType>(in);
  p.conditional.size = in.get<uint32_t>();
  p.conditional.ctx = s.current;
  if (!in.ok() || p.conditional.size > kMaxConditionalBodies ||
      !s.objects.contains(ObjectKind::condition, p.conditional.handle))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUgraphNode node = nullptr;
  if (CUresult r = optional_call(s.cu.cuGraphAddNode, &node, target.graph, target.list(), nullptr,
                                 target.dependencies.size(), &p))
    return s.reply(reply, r);
  s.objects.add(ObjectKind::node, (uint64_t)node, (uint64_t)target.graph);
  std::string out;
  append(out, node);
  for (uint32_t i = 0; i < p.conditional.size; ++i) {
    CUgraph body = p.conditional.phGraph_out ? p.conditional.phGraph_out[i] : nullptr;
    s.objects.add(ObjectKind::graph, (uint64_t)body, (uint64_t)node);
    append(out, body);
  }
  s.reply(reply, CUDA_SUCCESS, out);
}

}  // namespace busbar::server
