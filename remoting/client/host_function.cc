#include "client/host_function.h"

#include <condition_variable>
#include <deque>
#include <thread>
#include <unordered_map>

#include "client/context.h"
#include "client/graph_input.h"
#include "client/link.h"
#include "mutex.h"

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
  Mutex mutex;
  std::condition_variable changed;
  std::unordered_map<uint64_t, Entry> of_streams GUARDED_BY(mutex);
  std::unordered_map<uint64_t, GraphFunction> of_graphs GUARDED_BY(mutex);
  std::deque<std::function<void()>> ready GUARDED_BY(mutex);  // calls that the node has requested

  void run() {
    MutexLock lock(mutex);
    for (;;) {
      while (ready.empty()) changed.wait(lock);
      auto work = std::move(ready.front());
      ready.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }
  void post(std::function<void()> work) {
    MutexLock lock(mutex);
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

void report_done(Link* link, wire::Op op, uint64_t id) {
  wire::Encoder<> done(op, 0);
  done.put(id);
  link->submit_now(done.finish(), done.size());
}

void run_on_stream(uint64_t id) {
  HostFunctions& h = host_functions();
  MutexLock lock(h.mutex);
  auto it = h.of_streams.find(id);
  if (it == h.of_streams.end()) return;
  auto e = std::move(it->second);
  h.of_streams.erase(it);
  lock.unlock();
  e.run();
  report_done(e.link, wire::Op::host_function_done, id);
  e.stream->host_functions--;
}

void run_in_graph(uint64_t id, uint64_t round) {
  HostFunctions& h = host_functions();
  MutexLock lock(h.mutex);
  auto it = h.of_graphs.find(id);
  if (it == h.of_graphs.end()) return;
  GraphFunction f = it->second;
  lock.unlock();
  f.params.fn(f.params.userData);
  std::vector<HostCopy> copies;
  {
    MutexLock model_lock(f.model->mutex);
    copies = f.model->contents.copies;
  }
  for (auto& c : copies)
    if (c.in) send_graph_input_now(f.link, c);
  report_done(f.link, wire::Op::graph_function_done, round);
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

uint64_t register_stream_function(Link* link, Stream* s, std::function<void()> f) {
  uint64_t id = link->next_id();
  HostFunctions& h = host_functions();
  MutexLock lock(h.mutex);
  h.of_streams[id] = {std::move(f), retain(s), link};
  s->host_functions++;
  return id;
}

uint64_t register_graph_function(Link* link, CUhostFn f, void* data,
                                 const std::shared_ptr<GraphModel>& model) {
  uint64_t id = link->next_id();
  HostFunctions& h = host_functions();
  MutexLock lock(h.mutex);
  h.of_graphs[id] = {{f, data}, link, model};
  return id;
}

bool find_graph_function(uint64_t id, CUDA_HOST_NODE_PARAMS& out) {
  HostFunctions& h = host_functions();
  MutexLock lock(h.mutex);
  auto it = h.of_graphs.find(id);
  if (it == h.of_graphs.end()) return false;
  out = it->second.params;
  return true;
}

CUresult wait_for_host_functions(Context* c, Stream* s) {
  bool pending = s->host_functions.load() > 0 || c->legacy.host_functions.load() > 0;
  if (!pending) {
    MutexLock lock(c->mutex);
    for (auto* list : {&c->streams, &c->ended_streams})
      for (auto& other : *list) pending |= other->host_functions.load() > 0;
  }
  return pending ? synchronize(c) : CUDA_SUCCESS;
}

}  // namespace busbar::client
