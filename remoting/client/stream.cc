// Streams and host functions. Queries are local reads of the completion counter.
#include <condition_variable>
#include <deque>
#include <thread>

#include "client/call.h"

namespace busbar::client {

namespace {
// Runs the program's host functions, one after the other, on a thread of its own, as a driver does.
struct HostFunctions {
  struct Entry { std::function<void()> run; Stream* stream; Link* link; };
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<uint64_t, Entry> waiting;
  std::deque<uint64_t> ready;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !ready.empty(); });
      uint64_t id = ready.front();
      ready.pop_front();
      auto it = waiting.find(id);
      if (it == waiting.end()) continue;
      Entry e = std::move(it->second);
      waiting.erase(it);
      lock.unlock();
      e.run();
      wire::Encoder<> done(wire::Op::host_function_done, 0);
      done.put(id);
      e.link->submit(done.finish(), done.size());
      e.stream->host_functions--;
      lock.lock();
    }
  }
};

HostFunctions& host_functions() {
  static auto* h = [] { auto* f = new HostFunctions; std::thread([f] { f->run(); }).detach(); return f; }();
  return *h;
}

CUresult add_host_function(CUstream handle, const std::function<void(Stream*)>& f) {
  Call call;
  if (CUresult r = call.begin(handle)) return r;
  Stream* s = call.stream();
  uint64_t id = call.link()->next_id();
  HostFunctions& h = host_functions();
  { std::lock_guard lock(h.mutex); h.waiting[id] = {[f, s] { f(s); }, s, call.link()}; }
  s->host_functions++;
  wire::Encoder<> e(wire::Op::host_function, call.context_id(), call.stream_id());
  e.put(id);
  return call.fire(e.finish(), e.size());
}
}  // namespace

void start_host_functions(Link* link) {
  link->on_host_function = [](uint64_t id) {
    HostFunctions& h = host_functions();
    std::lock_guard lock(h.mutex);
    h.ready.push_back(id);
    h.changed.notify_one();
  };
}

Stream* stream_of(CUstream h, Context* c) {
  if (h == nullptr && t_per_thread_default > 0) h = CU_STREAM_PER_THREAD;
  if (h == nullptr || h == CU_STREAM_LEGACY) return &c->legacy;
  if (h != CU_STREAM_PER_THREAD) return session()->streams.get(h);
  static thread_local auto* own = new std::unordered_map<Context*, Stream*>;   // an explicit blocking stream a thread
  Stream*& s = (*own)[c];
  if (!s) {
    CUstream made = nullptr;
    CUcontext before = nullptr;
    cuCtxGetCurrent(&before);
    cuCtxPushCurrent((CUcontext)c->handle);
    if (cuStreamCreateWithPriority(&made, 0, 0) == CUDA_SUCCESS) s = session()->streams.get(made);
    cuCtxPopCurrent(nullptr);
  }
  return s;
}

void submitted(Stream* s, uint64_t position) {
  uint64_t last = s->progress.last.load(std::memory_order_relaxed);
  while (last < position && !s->progress.last.compare_exchange_weak(last, position, std::memory_order_acq_rel)) {}
}

CUresult wait_for(Stream* s, uint64_t position) {
  Link* link = s->context->device->link;
  auto done = [&] { return s->progress.completed.load(std::memory_order_acquire) >= position; };
  if (position == 0 || done()) return link->error();
  return link->wait(done);     // the node marks a stream as soon as its ring runs dry, so no request is needed
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define STREAM(s, h, c) Stream* s = stream_of(h, c); if (!s) return CUDA_ERROR_INVALID_HANDLE
#define CURRENT(c) Context* c; if (CUresult r = require_context(c)) return r

API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  CURRENT(c);
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto* s = new Stream;
  s->context = c;
  s->id = session()->next_number++;
  s->flags = flags;
  s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  wire::Encoder<> e(wire::Op::create_stream, c->id);
  e.put(s->id).put<uint32_t>(flags).put<int32_t>(s->priority);
  c->device->link->watch(s->id, &s->progress);
  if (!c->device->link->submit(e.finish(), e.size())) return c->device->link->error();
  s->handle = session()->streams.add(s);
  std::lock_guard lock(c->mutex);
  c->streams.push_back(s);
  if (flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams++;
  *out = (CUstream)s->handle;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

API CUresult cuStreamDestroy(CUstream h) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  if (!h || h == CU_STREAM_LEGACY || h == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = session()->streams.remove(h);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  Context* c = s->context;
  wire::Encoder<> e(wire::Op::destroy_stream, c->id);
  e.put(s->id);
  c->device->link->submit(e.finish(), e.size());
  std::lock_guard lock(c->mutex);
  std::erase(c->streams, s);                // the object stays: events and completions may still name it
  if (s->flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams--;
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream h) {
  CURRENT(c);
  STREAM(s, h, c);
  return s->legacy ? synchronize(c) : wait_for(s, s->progress.last.load());
}

API CUresult cuStreamQuery(CUstream h) { CURRENT(c); STREAM(s, h, c); return s->progress.done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
API CUresult cuStreamGetFlags(CUstream h, unsigned* flags) { CURRENT(c); STREAM(s, h, c); if (!flags) return CUDA_ERROR_INVALID_VALUE; *flags = s->flags; return CUDA_SUCCESS; }
API CUresult cuStreamGetPriority(CUstream h, int* priority) { CURRENT(c); STREAM(s, h, c); if (!priority) return CUDA_ERROR_INVALID_VALUE; *priority = s->priority; return CUDA_SUCCESS; }
API CUresult cuStreamGetCtx(CUstream h, CUcontext* out) { CURRENT(c); STREAM(s, h, c); if (!out) return CUDA_ERROR_INVALID_VALUE; *out = (CUcontext)s->context->handle; return CUDA_SUCCESS; }
API CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* status) { CURRENT(c); STREAM(s, h, c); (void)s; if (!status) return CUDA_ERROR_INVALID_VALUE; *status = CU_STREAM_CAPTURE_STATUS_NONE; return CUDA_SUCCESS; }

API CUresult cuLaunchHostFunc(CUstream h, CUhostFn f, void* data) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(h, [=](Stream*) { f(data); });
}

API CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* data, unsigned flags) {
  if (!f || flags) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(h, [=](Stream* s) { f(h, s->context->device->link->error(), data); });
}
