// Streams are queues with a thread each; events are places in them.
#include <time.h>

#include <algorithm>

#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {

bool open_gates(const StreamState::Operation& o) {
  return std::all_of(o.gates.begin(), o.gates.end(),
                     [](auto& g) { return g.stream->completed >= g.position; });
}

void run_stream(StreamRef s) {
  Context* c = s->context;
  std::unique_lock lock(c->mutex);
  for (;;) {
    c->changed.wait(lock, [&] {
      return (s->closing && s->queue.empty()) ||
             (!s->queue.empty() && open_gates(s->queue.front()));
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
                 std::vector<StreamState::Gate> gates, const NodeParams* params) {
  Context* c = s->context;
  std::lock_guard lock(c->mutex);
  if (s->capture) {
    capture_call(*s, params ? *params : NodeParams{}, std::move(run));
    return 0;
  }
  if (s->legacy) {
    for (auto& o : c->streams)
      if (o != s && o->blocking && o->completed < o->enqueued) gates.push_back({o, o->enqueued});
  } else if (s->blocking) {
    auto& l = c->streams[0];
    if (l->completed < l->enqueued) gates.push_back({l, l->enqueued});
  }
  s->queue.push_back({std::move(run), std::move(gates)});
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

CUresult stream_for(CUstream h, Context* c, StreamRef& out) {
  if (h == nullptr && t_per_thread_default) h = CU_STREAM_PER_THREAD;
  std::lock_guard lock(c->mutex);
  if (h == nullptr || h == CU_STREAM_LEGACY) {  // it would wait for every blocking stream, also for
                                                // those that are being captured
    for (auto& s : c->streams)
      if (s->blocking && s->capture) {
        invalidate(*s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    out = c->streams[0];
    return CUDA_SUCCESS;
  }
  if (h == CU_STREAM_PER_THREAD) {
    auto& own = c->per_thread[std::this_thread::get_id()];
    if (!own) {
      own = std::make_shared<StreamState>();
      own->context = c;
      c->streams.push_back(own);
    }
    out = own;
    return CUDA_SUCCESS;
  }
  for (auto& s : c->streams)
    if (s.get() == (StreamState*)h && !s->closing) {
      out = s;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define STREAM(s, h, c) \
  StreamRef s;          \
  if (CUresult r = stream_for(h, c, s)) return r

static CUresult create(CUstream* out, unsigned flags, int priority) {
  CURRENT(c);
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto s = std::make_shared<StreamState>();
  s->context = c;
  s->blocking = !(flags & CU_STREAM_NON_BLOCKING);
  s->priority = std::clamp(priority, -5, 0);
  std::lock_guard lock(c->mutex);
  c->streams.push_back(s);
  *out = (CUstream)s.get();
  return CUDA_SUCCESS;
}

API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return create(out, flags, 0);
}
API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return create(out, flags, priority);
}

API CUresult cuStreamDestroy(CUstream h) {
  Context* c;
  CUresult sticky = current_context(c);
  if (!c) return sticky;
  if (!h || h == CU_STREAM_LEGACY || h == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  STREAM(s, h, c);
  std::lock_guard lock(c->mutex);
  s->closing = true;  // its work goes on; the legacy stream still waits for it
  if (s->completed == s->enqueued) std::erase(c->streams, s);
  std::erase_if(c->streams, [&](auto& o) { return o->closing && o->completed == o->enqueued; });
  c->changed.notify_all();
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream h) {
  CURRENT(c);
  STREAM(s, h, c);
  if (s->legacy) return wait_for_context(c);
  uint64_t end;
  {
    std::lock_guard lock(c->mutex);
    if (s->capture) {
      invalidate(*s->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    end = s->enqueued;
  }
  return wait_for(s, end);
}

API CUresult cuStreamQuery(CUstream h) {
  CURRENT(c);
  STREAM(s, h, c);
  std::lock_guard lock(c->mutex);
  if (s->capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (c->error) return c->error;
  return s->completed < s->enqueued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

API CUresult cuStreamGetFlags(CUstream h, unsigned* flags) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = s->blocking ? 0 : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetPriority(CUstream h, int* priority) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetCtx(CUstream h, CUcontext* out) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)c;
  return CUDA_SUCCESS;
}

API CUresult cuLaunchHostFunc(CUstream h, CUhostFn f, void* data) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host.fn = f;
  params.host.userData = data;
  enqueue(
      s,
      [=] {
        f(data);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return CUDA_SUCCESS;
}

API CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* data, unsigned flags) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!f || flags) return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    f(h, CUDA_SUCCESS, data);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  CURRENT(c);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto* e = new EventState;
  e->context = c;
  e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  remember(e);
  *out = (CUevent)e;
  return CUDA_SUCCESS;
}

API CUresult cuEventDestroy(CUevent h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!h || !forget((EventState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  delete (EventState*)h;
  return CUDA_SUCCESS;
}

#define EVENT(e, h)         \
  auto* e = (EventState*)h; \
  if (!h || !known(e)) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuEventRecord(CUevent h, CUstream hs) {
  CURRENT(c);
  EVENT(e, h);
  STREAM(s, hs, c);
  if (e->context != c) return CUDA_ERROR_INVALID_HANDLE;
  {
    std::lock_guard lock(c->mutex);
    e->capture = s->capture;
    if (s->capture) {
      e->tail = s->tail;
      return CUDA_SUCCESS;
    }
  }
  auto stamp = std::make_shared<uint64_t>(0);
  uint64_t at = enqueue(s, [stamp] {
    *stamp = now();
    return CUDA_SUCCESS;
  });
  std::lock_guard lock(c->mutex);
  e->recorded = true;
  e->stream = s;
  e->position = at;
  e->nanoseconds = stamp;
  return CUDA_SUCCESS;
}

// In a capture: a node that other streams see, instead of an edge.
static CUresult capture_external(const StreamRef& s, CUevent event, CUgraphNodeType type) {
  NodeParams node;
  node.type = type;
  node.event = event;
  enqueue(s, {}, {}, &node);
  return CUDA_SUCCESS;
}

API CUresult cuEventRecordWithFlags(CUevent h, CUstream hs, unsigned flags) {
  CURRENT(c);
  EVENT(e, h);
  (void)e;
  STREAM(s, hs, c);
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  return flags && s->capture ? capture_external(s, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                             : cuEventRecord(h, hs);
}

API CUresult cuEventQuery(CUevent h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  EVENT(e, h);
  std::lock_guard lock(e->context->mutex);
  if (e->capture) {
    invalidate(*e->capture);
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (e->context->error) return e->context->error;
  return e->recorded && e->stream->completed < e->position ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

API CUresult cuEventSynchronize(CUevent h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  EVENT(e, h);
  StreamRef s;
  uint64_t at;
  {
    std::lock_guard lock(e->context->mutex);
    if (e->capture) {
      invalidate(*e->capture);
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    s = e->stream;
    at = e->position;
  }
  return s ? wait_for(s, at) : e->context->error.load();
}

API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  EVENT(x, a);
  EVENT(y, b);
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if (!x->timed || !y->timed || !x->recorded || !y->recorded) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(x->context->mutex);
  if (x->stream->completed < x->position || y->stream->completed < y->position)
    return CUDA_ERROR_NOT_READY;
  *ms = (float)(((double)*y->nanoseconds - (double)*x->nanoseconds) / 1e6);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}

API CUresult cuStreamWaitEvent(CUstream hs, CUevent h, unsigned flags) {
  CURRENT(c);
  EVENT(e, h);
  STREAM(s, hs, c);
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && s->capture) return capture_external(s, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  if (CUresult r = capture_wait(c, s, e); r != CUDA_ERROR_NOT_READY) return r;
  if (!e->recorded) return CUDA_SUCCESS;
  StreamState::Gate gate;
  {
    std::lock_guard lock(e->context->mutex);
    gate = {e->stream, e->position};
  }
  if (e->context == c)
    enqueue(s, [] { return CUDA_SUCCESS; }, {gate});
  else
    enqueue(s, [gate] {
      return wait_for(gate.stream, gate.position);
    });  // another context has a lock of its own
  return CUDA_SUCCESS;
}
