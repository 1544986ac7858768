// Graphs as a whole: made, cloned, instantiated, updated, launched. A launch carries the bytes that
// its copies read from the program's memory, and brings back those that they write to it.
#include "client/graph.h"

#include <algorithm>
#include <unordered_map>

#include "client/call.h"
#include "client/node_calls.h"

namespace busbar::client {

namespace {
struct Models {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<GraphModel>> of;
};
Models& models() {
  static auto* m = new Models;
  return *m;
}

std::shared_ptr<GraphModel> find_or_make(const void* handle) {
  std::lock_guard lock(models().mutex);
  auto& m = models().of[handle];
  if (!m) m = std::make_shared<GraphModel>();
  return m;
}
}  // namespace

std::shared_ptr<GraphModel> model_of(CUgraph g) {
  return find_or_make(g);
}
std::shared_ptr<GraphModel> model_of(CUgraphExec e) {
  return find_or_make(e);
}
std::shared_ptr<GraphModel> model_with(CUgraphNode n) {
  return model_of((CUgraph)session()->objects.owner(ObjectKind::node, (uint64_t)n));
}
void set_model(CUgraph g, std::shared_ptr<GraphModel> model) {
  std::lock_guard lock(models().mutex);
  models().of[g] = std::move(model);
}

// Graphs inside of a graph that is gone.
static void forget_bodies(const GraphModel& model) {
  for (auto& c : model.conditionals)
    for (CUgraph body : c->bodies) {
      std::unique_lock lock(models().mutex);
      auto entry = models().of.extract(body);
      lock.unlock();
      if (entry) forget_bodies(*entry.mapped());
    }
}

// What the client keeps for a graph, taken away before the node destroys it: a moment later another
// thread's graph may have its value.
class Farewell {
 public:
  explicit Farewell(const void* handle) : handle_(handle), objects_(take_objects_of(handle)) {
    std::lock_guard lock(models().mutex);
    auto entry = models().of.extract(handle);
    if (entry) model_ = std::move(entry.mapped());
  }
  CUresult settle(CUresult r) {
    if (!r) {
      release_objects(objects_);
      if (model_) forget_bodies(*model_);
      return r;
    }
    give_objects_to(handle_, std::move(objects_));
    std::lock_guard lock(models().mutex);
    if (model_) models().of[handle_] = std::move(model_);
    return r;
  }

 private:
  const void* handle_;
  UserObjects objects_;
  std::shared_ptr<GraphModel> model_;
};

uint32_t add_host_copy(Link* link, GraphModel& model, bool in, const Rows& rows, CUgraphNode node) {
  std::lock_guard lock(model.mutex);
  uint32_t staging = session()->next_staging++;
  model.copies.push_back({staging, in, false, rows, node});
  link->know_staging(staging, rows);
  return staging;
}

// A graph that is made of another also has what that one's conditions may run, as it is when it is
// made.
static void take_bodies(GraphModel& to,
                        const std::vector<std::shared_ptr<Conditional>>& conditionals) {
  for (auto& c : conditionals)
    for (CUgraph body : c->bodies) {
      auto from = model_of(body);
      std::unique_lock lock(from->mutex);
      auto copies = from->copies;
      auto inner = from->conditionals;
      lock.unlock();
      for (auto& copy : copies) {
        copy.perhaps = true;
        to.copies.push_back(copy);
      }
      take_bodies(to, inner);
    }
}

void take_over(GraphModel& to, GraphModel& from, bool replace) {
  if (&to == &from) return;
  std::scoped_lock lock(to.mutex, from.mutex);
  if (replace) {
    to.copies.clear();
    to.events.clear();
  }
  to.copies.insert(to.copies.end(), from.copies.begin(), from.copies.end());
  to.events.insert(to.events.end(), from.events.begin(), from.events.end());
  take_bodies(to, from.conditionals);
}

// What a copy of the graph reads, into the node's buffer: in the order of the stream, or at once
// while the graph waits for a host function.
CUresult send_input(Link* link, uint32_t context, uint32_t stream, Stream* s, const HostCopy& c) {
  uint64_t total = c.rows.bytes();
  for (uint64_t offset = 0; offset < total;) {
    uint64_t n = std::min<uint64_t>(total - offset, wire::kMaxChunkBytes);
    std::vector<uint8_t> bytes;
    bytes.reserve(n);
    c.rows.pieces(offset, n, [&](const uint8_t* from, uint64_t k) {
      bytes.insert(bytes.end(), from, from + k);
    });
    bool inlined = n <= wire::kMaxInlineBytes;
    uint64_t transfer = inlined ? 0 : link->upload(bytes.data(), n);
    if (!inlined && !transfer) return link->error();
    wire::Encoder<wire::kMaxInlineBytes + 64> e(stream ? wire::Op::stage : wire::Op::stage_now,
                                                context, stream);
    e.put(c.staging).put<uint32_t>(0).put(total).put(offset).put(n).put(transfer);
    if (inlined) e.raw(bytes.data(), (uint32_t)n);
    uint64_t at = link->submit(e.finish(), e.size());
    if (!at) return link->error();
    if (s) submitted(s, at);
    offset += n;
  }
  return CUDA_SUCCESS;
}

static CUresult launch_graph(Call& call, CUgraphExec exec, GraphModel& model) {
  std::vector<HostCopy> outputs;
  for (auto& c : model.copies)
    if (!c.in) outputs.push_back(c);
  if (outputs.size() > kMostElements) return CUDA_ERROR_NOT_SUPPORTED;
  for (auto& c : model.copies)
    if (c.in || c.perhaps)
      if (CUresult r =
              send_input(call.link(), call.context_id(), call.stream_id(), call.stream(), c))
        return r;
  wire::Encoder<kLongRequest> e(wire::Op::launch_graph, call.context_id(), call.stream_id());
  e.put((uint64_t)exec).put((uint32_t)outputs.size()).put<uint32_t>(0);
  for (auto& c : outputs)
    e.put((uint64_t)c.staging).put(call.link()->expect(c.rows, 0, c.rows.bytes()));
  if (CUresult r = call.fire(e.finish(), e.size())) return r;
  for (CUevent h : model.events)
    if (Event* event = session()->events.get(h)) {
      std::lock_guard lock(event->mutex);
      event->stream = kept(call.stream());
      event->position = call.stream()->progress.last;
      event->by_graph = true;
    }
  return CUDA_SUCCESS;
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuGraphLaunch(CUgraphExec exec, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (!home_of(ObjectKind::exec, (uint64_t)exec).link) return CUDA_ERROR_INVALID_VALUE;
  auto model = model_of(exec);
  if (auto capture = call.stream()->capturing ? capture_of(*call.stream()) : nullptr) {
    take_over(*capture->model, *model, false);
    wire::Encoder<> e(wire::Op::launch_graph, call.context_id(), call.stream_id());
    e.put((uint64_t)exec).put<uint64_t>(0);
    return call.fire(e.finish(), e.size());
  }
  std::unique_lock lock(model->mutex);
  if (std::any_of(model->copies.begin(), model->copies.end(),
                  [](auto& c) { return c.in || c.perhaps; }))
    if (CUresult r = settle_host_functions(call)) return r;
  return launch_graph(call, exec, *model);
}

API CUresult cuGraphClone(CUgraph* out, CUgraph g) {
  CUresult r = node_cuGraphClone(out, g);
  if (!r) take_over(*model_of(*out), *model_of(g), true);
  return r;
}
API CUresult cuGraphDestroy(CUgraph g) {
  Farewell farewell(g);
  return farewell.settle(node_cuGraphDestroy(g));
}
API CUresult cuGraphExecDestroy(CUgraphExec e) {
  Farewell farewell(e);
  return farewell.settle(node_cuGraphExecDestroy(e));
}
API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                      CUgraph child) {
  CUresult r = node_cuGraphAddChildGraphNode(out, g, d, n, child);
  if (!r) take_over(*model_of(g), *model_of(child), false);
  return r;
}
API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraph child) {
  CUresult r = node_cuGraphExecChildGraphNodeSetParams(e, n, child);
  if (!r) take_over(*model_of(e), *model_of(child), false);
  return r;
}
API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
  CUgraphExecUpdateResultInfo result{};
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = node_cuGraphExecUpdate_v2(e, g, &result);
  if (!r) {
    *info = result;
    r = result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                      : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  if (!r) take_over(*model_of(e), *model_of(g), true);
  return r;
}
#undef cuGraphExecUpdate
API CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphNode* node,
                               CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  CUresult r = cuGraphExecUpdate_v2(e, g, &info);
  if (node) *node = info.errorNode;
  if (result) *result = info.result;
  return r;
}

// ---- instantiation ----
static CUresult instantiate(CUgraphExec* out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS& p) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  Call call;
  if (CUresult r = call.begin_anywhere()) return r;
  if (!call.known(ObjectKind::graph, (uint64_t)g)) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<> e(wire::Op::instantiate, call.context_id());
  e.put(call.reply_id()).put((uint64_t)g).put((uint64_t)p.flags);
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (call.status() && !answer.left()) return call.status();
  *out = answer.get<CUgraphExec>();
  p.hErrNode_out = answer.get<CUgraphNode>();
  p.result_out = (CUgraphInstantiateResult)answer.get<uint32_t>();
  if (call.status()) {
    *out = nullptr;
    return call.status();
  }
  call.remember(ObjectKind::exec, (uint64_t)*out);
  take_over(*model_of(*out), *model_of(g), true);
  share_objects(g, *out);
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
API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph g, CUgraphNode* node, char* log,
                                   size_t room) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  CUresult r = instantiate(out, g, p);
  if (node) *node = p.hErrNode_out;
  if (log && room) *log = 0;
  return r;
}
#undef cuGraphInstantiate
API CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph g, CUgraphNode* node, char* log,
                                size_t room) {
  return cuGraphInstantiate_v2(out, g, node, log, room);
}
