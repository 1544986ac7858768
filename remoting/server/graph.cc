// Graphs on the node: instantiation, and host functions of the program inside graphs.
#include <algorithm>
#include <chrono>
#include <set>

#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint64_t kFrameBytes = 1 << 20;
constexpr auto kAlivePollInterval = std::chrono::seconds(1);

// Sends the content of graph buffers to the client.
void send_outputs(Session& s, const std::set<uint32_t>& outputs) {
  for (uint32_t id : outputs) {
    GraphBuffer b = s.graph_buffers.find(id);
    for (uint64_t offset = 0; offset < b.bytes; offset += kFrameBytes) {
      struct {
        uint32_t id, zero;
        uint64_t offset;
      } head{id, 0, offset};
      s.link.send(wire::Frame::graph_output, &head, sizeof head, b.data + offset,
                  std::min(kFrameBytes, b.bytes - offset));
    }
  }
}

// Runs on a thread of the driver. Blocks until the client has run the function or is gone.
void CUDA_CB call_program(void* data) {
  auto* f = (ProgramFunction*)data;
  Session& s = *f->session;
  GraphFunctions& g = s.graph_functions;
  std::unique_lock lock(g.mutex);
  uint64_t call = g.next_call++;
  g.waiting.insert(call);
  auto outputs = f->outputs;
  lock.unlock();
  send_outputs(s, outputs);
  uint64_t body[2] = {f->id, call};
  s.link.send(wire::Frame::graph_function, body, sizeof body);
  lock.lock();
  while (g.waiting.count(call) && s.link.alive()) g.changed.wait_for(lock, kAlivePollInterval);
  g.waiting.erase(call);
}

std::vector<CUgraphNode> dependencies(Session& s, CUgraphNode n) {
  size_t count = 0;
  if (!s.cu.cuGraphNodeGetDependencies ||
      s.cu.cuGraphNodeGetDependencies(n, nullptr, nullptr, &count))
    return {};
  std::vector<CUgraphNode> list(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (count && s.cu.cuGraphNodeGetDependencies(n, list.data(), edges.data(), &count)) return {};
  list.resize(std::min(count, list.size()));
  return list;
}

// Returns the graph buffers that copies before this node fill.
std::set<uint32_t> outputs_before(Session& s, CUgraphNode start) {
  std::set<uint32_t> found;
  std::set<CUgraphNode> seen{start};
  std::vector<CUgraphNode> open{start};
  while (!open.empty()) {
    CUgraphNode n = open.back();
    open.pop_back();
    CUgraphNodeType type;
    CUDA_MEMCPY3D copy;
    if (!s.cu.cuGraphNodeGetType(n, &type) && type == CU_GRAPH_NODE_TYPE_MEMCPY &&
        !s.cu.cuGraphMemcpyNodeGetParams(n, &copy) && copy.dstMemoryType == CU_MEMORYTYPE_HOST)
      if (uint32_t id = s.graph_buffers.id_of(copy.dstHost)) found.insert(id);
    for (CUgraphNode d : dependencies(s, n))
      if (seen.insert(d).second) open.push_back(d);
  }
  return found;
}

// Notes for each host function of the program which graph buffers are filled before it. They are
// sent to the client before the function runs.
void note_outputs(Session& s, CUgraph g) {
  {
    std::lock_guard lock(s.graph_functions.mutex);
    if (s.graph_functions.known.empty()) return;
  }
  size_t count = 0;
  if (!s.cu.cuGraphGetNodes || s.cu.cuGraphGetNodes(g, nullptr, &count)) return;
  std::vector<CUgraphNode> nodes(count);
  if (!count || s.cu.cuGraphGetNodes(g, nodes.data(), &count)) return;
  for (CUgraphNode n : nodes) {
    CUgraphNodeType type;
    CUDA_HOST_NODE_PARAMS host;
    if (s.cu.cuGraphNodeGetType(n, &type) || type != CU_GRAPH_NODE_TYPE_HOST ||
        s.cu.cuGraphHostNodeGetParams(n, &host))
      continue;
    auto before = outputs_before(s, n);
    std::lock_guard lock(s.graph_functions.mutex);
    if (s.graph_functions.known.count(host.userData))
      ((ProgramFunction*)host.userData)->outputs.insert(before.begin(), before.end());
  }
}
}  // namespace

CUhostFn graph_callback() {
  return call_program;
}

void* graph_callback_data(Session& s, uint64_t id) {
  auto f = std::make_shared<ProgramFunction>(ProgramFunction{&s, id, {}});
  s.work_waits = true;
  std::lock_guard lock(s.graph_functions.mutex);
  if (s.graph_functions.known.size() >= wire::kMaxListElements) return nullptr;
  s.graph_functions.known[f.get()] = f;
  return f.get();
}

// call
void handlers::graph_function_done(Session& s, wire::Decoder in) {
  std::lock_guard lock(s.graph_functions.mutex);
  s.graph_functions.waiting.erase(in.get<uint64_t>());
  s.graph_functions.changed.notify_all();
}

// graph, flags -> executable graph, error node, result
void handlers::instantiate(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto g = in.get<CUgraph>();
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  p.flags = in.get<uint64_t>() & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  if (!in.ok() || !s.objects.contains(ObjectKind::graph, (uint64_t)g))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (!s.cu.cuGraphInstantiateWithParams) return s.reply(reply, CUDA_ERROR_NOT_SUPPORTED);
  note_outputs(s, g);
  CUgraphExec exec = nullptr;
  CUresult r = s.cu.cuGraphInstantiateWithParams(&exec, g, &p);
  if (!r && !s.objects.add(ObjectKind::exec, (uint64_t)exec)) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (!r) s.graph_events.note(s.cu, exec, g);
  std::string out;
  append(out, exec);
  append(out, p.hErrNode_out);
  append(out, (uint32_t)p.result_out);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
