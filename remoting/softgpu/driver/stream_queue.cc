#include "softgpu/driver/stream_queue.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "softgpu/driver/capture.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/graph_node.h"

namespace softgpu {

namespace {

// As in NVIDIA's driver: a call waits while the queue of its stream is full.
constexpr uint64_t kQueueLength = 1024;

// Returns a stream that the next operation waits for, or null.
StreamState* blocker_of(const StreamState& s) {
  for (auto& d : s.queue.front().dependencies)
    if (d.stream->completed < d.position) return d.stream.get();
  return nullptr;
}

void run_streams(Context* c);

// Gives a stream to a thread if its next operation may start. All functions here need the lock.
void schedule(Context* c, const StreamRef& s) {
  if (s->turn != StreamState::Turn::none || s->queue.empty()) return;
  if (StreamState* blocker = blocker_of(*s)) {
    s->turn = StreamState::Turn::waits;
    blocker->waiters.push_back(s);
    return;
  }
  s->turn = StreamState::Turn::runs;
  c->ready.push_back(s);
  if (c->ready.size() <= c->arriving) return;
  ++c->arriving;
  if (c->free_threads.empty()) return std::thread(run_streams, c).detach();
  c->free_threads.back()->call();
  c->free_threads.pop_back();
}

// Releases the lock meanwhile.
void run_next(Context* c, StreamState& s, std::unique_lock<std::mutex>& lock) {
  auto operation = std::move(s.queue.front());
  s.queue.pop_front();
  bool skip = c->error != CUDA_SUCCESS;
  lock.unlock();
  CUresult r = skip ? CUDA_SUCCESS : operation.run();
  operation.run = nullptr;
  lock.lock();
  if (r != CUDA_SUCCESS && c->error == CUDA_SUCCESS) c->error = r;
  if (++s.completed >= s.awaited) {
    s.awaited = StreamState::kNone;
    c->changed.notify_all();
  }
  for (auto& waiter : std::exchange(s.waiters, {})) {
    waiter->turn = StreamState::Turn::none;
    schedule(c, waiter);
  }
}

// Blocks until the stream has completed so many operations.
void wait_for(StreamState& s, uint64_t position, std::unique_lock<std::mutex>& lock) {
  while (s.completed < position) {
    s.awaited = std::min(s.awaited, position);
    s.context->changed.wait(lock);
  }
}

// One thread of a context. Takes ready streams until the context is destroyed.
void run_streams(Context* c) {
  FreeThread self;
  std::unique_lock lock(c->mutex);
  --c->arriving;
  for (;;) {
    while (c->ready.empty()) {
      if (c->destroyed) return;
      self.is_called = false;
      c->free_threads.push_back(&self);
      self.called.wait(lock, [&] { return self.is_called; });
      --c->arriving;
    }
    StreamRef s = std::move(c->ready.front());
    c->ready.pop_front();
    do run_next(c, *s, lock);
    while (!s->queue.empty() && !blocker_of(*s));
    s->turn = StreamState::Turn::none;
    schedule(c, s);
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
  while (s->enqueued - s->completed >= kQueueLength)
    wait_for(*s, s->enqueued - kQueueLength + 1, lock);
  if (s->legacy) {
    for (auto& o : c->streams)
      if (o != s && o->blocking && o->completed < o->enqueued)
        dependencies.push_back({o, o->enqueued});
  } else if (s->blocking) {
    auto& l = c->streams[0];
    if (l->completed < l->enqueued) dependencies.push_back({l, l->enqueued});
  }
  s->queue.push_back({std::move(run), std::move(dependencies)});
  schedule(c, s);
  return ++s->enqueued;
}

CUresult wait_for(const StreamRef& s, uint64_t position) {
  std::unique_lock lock(s->context->mutex);
  wait_for(*s, position, lock);
  return s->context->error;
}

CUresult wait_for_context(Context* c) {
  std::unique_lock lock(c->mutex);
  auto streams = c->streams;
  std::vector<uint64_t> ends;
  for (auto& s : streams) ends.push_back(s->enqueued);
  for (size_t i = 0; i < streams.size(); ++i) wait_for(*streams[i], ends[i], lock);
  return c->error;
}

}  // namespace softgpu
