#include "softgpu/driver/stream_queue.h"

#include <algorithm>
#include <thread>

#include "softgpu/driver/capture.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/graph_node.h"

namespace softgpu {

namespace {

// As in NVIDIA's driver: a call waits while the queue of its stream is full.
constexpr uint64_t kQueueLength = 1024;

bool dependencies_complete(const StreamState::Operation& o) {
  return std::all_of(o.dependencies.begin(), o.dependencies.end(),
                     [](auto& g) { return g.stream->completed >= g.position; });
}

void run_stream(StreamRef s) {
  Context* c = s->context;
  std::unique_lock lock(c->mutex);
  for (;;) {
    c->changed.wait(lock, [&] {
      return (s->closing && s->queue.empty()) ||
             (!s->queue.empty() && dependencies_complete(s->queue.front()));
    });
    if (s->queue.empty()) return;
    auto operation = std::move(s->queue.front());
    s->queue.pop_front();
    bool skip = c->error != CUDA_SUCCESS;
    lock.unlock();
    CUresult r = skip ? CUDA_SUCCESS : operation.run();
    operation.run = nullptr;
    lock.lock();
    if (r != CUDA_SUCCESS && c->error == CUDA_SUCCESS) c->error = r;
    s->completed++;
    c->changed.notify_all();
  }
}
}  // namespace

uint64_t enqueue(const StreamRef& s, std::function<CUresult()> run,
                 std::vector<StreamDependency> dependencies, const NodeParams* params) {
  Context* c = s->context;
  std::unique_lock lock(c->mutex);
  if (s->capture) {
    capture_call(*s, params ? *params : NodeParams{}, std::move(run));
    return 0;
  }
  c->changed.wait(lock, [&] { return s->enqueued - s->completed < kQueueLength; });
  if (s->legacy) {
    for (auto& o : c->streams)
      if (o != s && o->blocking && o->completed < o->enqueued)
        dependencies.push_back({o, o->enqueued});
  } else if (s->blocking) {
    auto& l = c->streams[0];
    if (l->completed < l->enqueued) dependencies.push_back({l, l->enqueued});
  }
  s->queue.push_back({std::move(run), std::move(dependencies)});
  if (!s->has_thread) {
    s->has_thread = true;
    std::thread(run_stream, s).detach();
  }
  c->changed.notify_all();
  return ++s->enqueued;
}

CUresult wait_for(const StreamRef& s, uint64_t position) {
  std::unique_lock lock(s->context->mutex);
  s->context->changed.wait(lock, [&] { return s->completed >= position; });
  return s->context->error;
}

CUresult wait_for_context(Context* c) {
  std::unique_lock lock(c->mutex);
  auto streams = c->streams;
  std::vector<uint64_t> ends;
  for (auto& s : streams) ends.push_back(s->enqueued);
  c->changed.wait(lock, [&] {
    for (size_t i = 0; i < streams.size(); ++i)
      if (streams[i]->completed < ends[i]) return false;
    return true;
  });
  return c->error;
}

}  // namespace softgpu
