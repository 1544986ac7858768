// The program's functions that streams and graphs call: on one thread, one after the other, as a
// driver does.
#include <condition_variable>
#include <deque>
#include <thread>
#include <unordered_map>

#include "client/call.h"
#include "client/graph_function.h"
#include "client/node_calls.h"

namespace busbar::client {

namespace {
struct GraphFunction {
  CUDA_HOST_NODE_PARAMS params;
  Link* link;
  std::shared_ptr<GraphModel> model;
};

struct HostFunctions {
  struct Entry {
    std::function<void()> run;
    StreamRef stream;
    Link* link;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<uint64_t, Entry> waiting;
  std::unordered_map<uint64_t, GraphFunction> of_graphs;
  std::deque<std::function<void()>> ready;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !ready.empty(); });
      auto work = std::move(ready.front());
      ready.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }
  void post(std::function<void()> work) {
    std::lock_guard lock(mutex);
    ready.push_back(std::move(work));
    changed.notify_one();
  }
};

HostFunctions& host_functions() {
  static auto* h = [] {
    auto* f = new HostFunctions;
    std::thread([f] { f->run(); }).detach();
    return f;
  }();
  return *h;
}

void answer(Link* link, wire::Op op, uint64_t id) {
  wire::Encoder<> done(op, 0);
  done.put(id);
  link->submit(done.finish(), done.size());
}

void run_on_stream(uint64_t id) {
  HostFunctions& h = host_functions();
  std::unique_lock lock(h.mutex);
  auto it = h.waiting.find(id);
  if (it == h.waiting.end()) return;
  auto e = std::move(it->second);
  h.waiting.erase(it);
  lock.unlock();
  e.run();
  answer(e.link, wire::Op::host_function_done, id);
  e.stream->host_functions--;
}

void run_in_graph(uint64_t id, uint64_t round) {
  HostFunctions& h = host_functions();
  std::unique_lock lock(h.mutex);
  auto it = h.of_graphs.find(id);
  if (it == h.of_graphs.end()) return;
  GraphFunction f = it->second;
  lock.unlock();
  f.params.fn(f.params.userData);
  std::vector<HostCopy> copies;
  {
    std::lock_guard all(f.model->mutex);
    copies = f.model->copies;
  }
  for (auto& c : copies)
    if (c.in) send_input(f.link, 0, 0, nullptr, c);
  answer(f.link, wire::Op::graph_function_done, round);
}

CUresult add_host_function(CUstream handle, const std::function<void(Stream*)>& f, CUhostFn plain,
                           void* data) {
  Call call;
  if (CUresult r = call.begin(handle)) return r;
  Stream* s = call.stream();
  if (auto capture = s->capturing ? capture_of(*s) : nullptr) {
    wire::Encoder<> e(wire::Op::capture_host_function, call.context_id(), call.stream_id());
    if (!plain) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    e.put(keep_graph_function(call.link(), plain, data, capture->model));
    return call.fire(e.finish(), e.size());
  }
  uint64_t id = call.link()->next_id();
  HostFunctions& h = host_functions();
  {
    std::lock_guard lock(h.mutex);
    h.waiting[id] = {[f, s] { f(s); }, kept(s), call.link()};
  }
  s->host_functions++;
  wire::Encoder<> e(wire::Op::host_function, call.context_id(), call.stream_id());
  e.put(id);
  return call.fire(e.finish(), e.size());
}
}  // namespace

void start_host_functions(Link* link) {
  link->on_host_function = [](uint64_t id) {
    host_functions().post([id] { run_on_stream(id); });
  };
  link->on_graph_function = [](uint64_t id, uint64_t round) {
    host_functions().post([=] { run_in_graph(id, round); });
  };
}

uint64_t keep_graph_function(Link* link, CUhostFn f, void* data,
                             const std::shared_ptr<GraphModel>& model) {
  uint64_t id = link->next_id();
  HostFunctions& h = host_functions();
  std::lock_guard lock(h.mutex);
  h.of_graphs[id] = {{f, data}, link, model};
  return id;
}

bool graph_function(uint64_t id, CUDA_HOST_NODE_PARAMS& out) {
  HostFunctions& h = host_functions();
  std::lock_guard lock(h.mutex);
  auto it = h.of_graphs.find(id);
  if (it == h.of_graphs.end()) return false;
  out = it->second.params;
  return true;
}

// A host function ahead may still write the source of a copy: wait for it instead of reading too
// early.
CUresult settle_host_functions(const Call& call) {
  Context* c = call.context();
  bool ahead = call.stream()->host_functions.load() > 0 || c->legacy.host_functions.load() > 0;
  if (!ahead) {
    std::lock_guard lock(c->mutex);
    for (auto& s : c->streams) ahead |= s->host_functions.load() > 0;
  }
  return ahead ? synchronize(c) : CUDA_SUCCESS;
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#undef cuLaunchHostFunc
API CUresult cuLaunchHostFunc(CUstream h, CUhostFn f, void* data) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(h, [=](Stream*) { f(data); }, f, data);
}
API CUresult cuLaunchHostFunc_v2(CUstream h, CUhostFn f, void* data, unsigned) {
  return cuLaunchHostFunc(h, f, data);
}

API CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* data, unsigned flags) {
  if (!f || flags) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(
      h, [=](Stream* s) { f(h, s->context->device->link->error(), data); }, nullptr, nullptr);
}
