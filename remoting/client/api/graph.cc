// CUDA entry points: graphs as a whole. A launch sends the host memory that the graph's copies
// read, and names a transfer for each copy that writes to host memory.
#include <algorithm>

#include "checked_size.h"
#include "client/call.h"
#include "client/event.h"
#include "client/graph_input.h"
#include "client/host_function.h"
#include "client/mapped.h"
#include "client/wrapped_calls.h"
#include "export.h"
#include "wire/growing_encoder.h"

using namespace busbar;
using namespace busbar::client;

static bool is_graph(CUgraph g) {
  return has_session() && home_of(ObjectKind::graph, (uint64_t)g).link;
}

using HostCopies = std::vector<HostCopy>;

static CUresult launch_graph(Call& call, CUgraphExec exec, GraphModel& model,
                             const HostCopies& copies) {
  HostCopies outputs;
  for (auto& c : copies)
    if (!c.in) outputs.push_back(c);
  constexpr uint64_t kOutputBytes = 16;  // in the record, which allocates above 250 outputs
  if (!(CheckedSize(outputs.size()) * kOutputBytes).within(kMaxArrayBytes))
    return CUDA_ERROR_NOT_SUPPORTED;
  for (auto& c : copies)
    if (c.in || c.conditional)
      if (CUresult r = send_graph_input(call.link(), call.context_id(), *call.stream(), c))
        return r;
  wire::GrowingEncoder e(wire::Op::launch_graph, call.context_id(), call.stream_id());
  e.put((uint64_t)exec).put((uint32_t)outputs.size()).put<uint32_t>(0);
  for (auto& c : outputs)
    e.put((uint64_t)c.staging).put(call.link()->expect_transfer(c.rows, 0, c.rows.bytes()));
  if (CUresult r = call.send(e.finish(), e.size())) return r;
  MutexLock model_lock(model.mutex);
  if (model.has_objects) model.launches.add(call.stream(), call.stream()->progress.last);
  for (auto& recorded : model.contents.events)
    if (Event* event = session()->events.get(recorded.event)) {
      MutexLock lock(event->mutex);
      event->stream = retain(call.stream());
      event->position = call.stream()->progress.last;
      event->by_graph = true;
    }
  return CUDA_SUCCESS;
}

// Return whether a copy of the graph reads or writes host memory that kernels use.
static bool copies_mapped_memory(const HostCopies& copies) {
  return has_host_mirrors() && std::ranges::any_of(copies, [](auto& c) {
           return has_device_copies(c.rows.base, c.rows.span(), nullptr);
         });
}

// The copies of a graph write host memory only. Waits for them, and sends the bytes to the copies
// that kernels use.
static CUresult send_outputs_to_device_copies(Call& call, const HostCopies& copies) {
  if (CUresult r = wait_for_submitted(call.stream())) return r;
  for (auto& c : copies)
    if (!c.in)
      if (CUresult r = send_to_device_copies(c.rows)) return r;
  return CUDA_SUCCESS;
}

API CUresult cuGraphLaunch(CUgraphExec exec, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (!home_of(ObjectKind::exec, (uint64_t)exec).link) return CUDA_ERROR_INVALID_VALUE;
  auto model = model_of(exec);
  if (auto capture = call.stream()->capturing ? capture_of(*call.stream()) : nullptr) {
    if (has_memory_nodes(*model)) return CUDA_ERROR_NOT_SUPPORTED;
    merge_model(*capture->model, *model, false);
    wire::Encoder<> e(wire::Op::launch_graph, call.context_id(), call.stream_id());
    e.put((uint64_t)exec).put<uint64_t>(0);
    return call.send(e.finish(), e.size());
  }
  // Nothing waits with the lock of the model, which the host functions of the graph need.
  MutexLock lock(model->mutex);
  HostCopies copies = model->contents.copies;
  lock.unlock();
  if (std::ranges::any_of(copies, [](auto& c) { return c.in || c.conditional; }))
    if (CUresult r = wait_for_host_functions(call.context(), call.stream())) return r;
  lock.lock();
  if (const MemoryNodes& memory = model->contents.memory; !memory.empty())
    if (CUresult r = launch_memory_nodes(memory, model->frees_first)) return r;
  lock.unlock();
  bool mapped = copies_mapped_memory(copies);
  if (mapped)
    if (CUresult r = settle_mapped(call.context(), call.stream())) return r;
  CUresult r = launch_graph(call, exec, *model, copies);
  return r || !mapped ? r : send_outputs_to_device_copies(call, copies);
}

API CUresult cuGraphClone(CUgraph* out, CUgraph g) {
  if (is_graph(g) && has_memory_nodes(g)) return CUDA_ERROR_NOT_SUPPORTED;
  CUresult r = send_cuGraphClone(out, g);
  if (r) return r;
  describe_clone(g, *out);
  return CUDA_SUCCESS;
}
API CUresult cuGraphDestroyNode(CUgraphNode n) {
  if (!has_session()) return CUDA_ERROR_NOT_INITIALIZED;
  auto model = model_of_node(n);
  if (has_memory_nodes(*model)) return CUDA_ERROR_NOT_SUPPORTED;
  RemovedGraphs removed(*model, n);
  CUresult r = removed.finish(send_cuGraphDestroyNode(n));
  if (!r) remove_node(*model, n);
  return r;
}
API CUresult cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                          const CUgraphEdgeData* edges, size_t n) {
  if (is_graph(g) && has_memory_nodes(g)) return CUDA_ERROR_NOT_SUPPORTED;
  return send_cuGraphRemoveDependencies_v2(g, from, to, edges, n);
}
API CUresult cuGraphDestroy(CUgraph g) {
  RemovedGraphs removed(g);
  return removed.finish(send_cuGraphDestroy(g));
}
API CUresult cuGraphExecDestroy(CUgraphExec e) {
  RemovedGraphs removed(e);
  return removed.finish(send_cuGraphExecDestroy(e));
}
API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      CUgraph child) {
  CUgraph copy;
  if (is_graph(child) && has_memory_nodes(child)) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = send_cuGraphAddChildGraphNode(out, g, d, n, child)) return r;
  if (CUresult r = cuGraphChildGraphNodeGetGraph(*out, &copy)) return r;
  describe_clone(child, copy);
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  model->contents.children[*out] = copy;
  return CUDA_SUCCESS;
}
API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraph child) {
  if (is_graph(child) && has_memory_nodes(child)) return CUDA_ERROR_NOT_SUPPORTED;
  CUresult r = send_cuGraphExecChildGraphNodeSetParams(e, n, child);
  if (r) return r;
  merge_model(*model_of(e), *model_of(child), false);
  share_user_objects(child, e);
  return CUDA_SUCCESS;
}
API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
  CUgraphExecUpdateResultInfo result{};
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = send_cuGraphExecUpdate_v2(e, g, &result);
  if (!r || r == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) *info = result;
  if (r) return r;
  merge_model(*model_of(e), *model_of(g), true);
  hold_user_objects(e, g);
  return CUDA_SUCCESS;
}

// ---- instantiation ----
static bool has_exec(CUgraph g) {
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  return !model->exec.expired();
}

static void set_exec(CUgraph g, const std::shared_ptr<GraphModel>& exec) {
  auto model = model_of(g);
  MutexLock lock(model->mutex);
  model->exec = exec;
}

static CUresult instantiate(CUgraphExec* out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS& p) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = unsafe_in_capture()) return r;
  *out = nullptr;
  Call call;
  if (CUresult r = call.begin_without_context()) return r;
  if (!call.select_node_of(ObjectKind::graph, (uint64_t)g)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(g) && has_exec(g)) return CUDA_ERROR_NOT_SUPPORTED;
  wire::Encoder<> e(wire::Op::instantiate, call.context_id());
  e.put(call.reply_id()).put((uint64_t)g).put((uint64_t)p.flags);
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (call.status() && !reply.left()) return call.status();
  *out = reply.get<CUgraphExec>();
  p.hErrNode_out = reply.get<CUgraphNode>();
  p.result_out = (CUgraphInstantiateResult)reply.get<uint32_t>();
  if (call.status()) {
    *out = nullptr;
    return call.status();
  }
  call.add_object(ObjectKind::exec, (uint64_t)*out);
  auto model = model_of(*out);
  merge_model(*model, *model_of(g), true);
  MutexLock lock(model->mutex);
  model->frees_first = p.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  lock.unlock();
  set_exec(g, model);
  hold_user_objects(*out, g);
  return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph g, unsigned long long flags) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  p.flags = flags;
  return instantiate(out, g, p);
}
API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph g,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  return p ? instantiate(out, g, *p) : CUDA_ERROR_INVALID_VALUE;
}
