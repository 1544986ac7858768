// CUDA entry points: events.
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/device/clock.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/shared_event.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<SharedEvent> shared;
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    shared = SharedEvent::create();
    if (!shared) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* e = new EventState;
  e->context = c;
  e->shared = std::move(shared);
  e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  add_handle(e);
  *out = (CUevent)e;
  return CUDA_SUCCESS;
}

API CUresult cuEventDestroy(CUevent h) {
  REQUIRE_DRIVER();
  if (!h || !remove_handle((EventState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  delete (EventState*)h;
  return CUDA_SUCCESS;
}

#define REQUIRE_EVENT_STATE(e, h) \
  auto* e = (EventState*)h;       \
  if (!h || !is_live(e)) return CUDA_ERROR_INVALID_HANDLE

// Return an object whose destructor completes a new record of a shared event: the operation of a
// stream ends also when an error of the context keeps it from running. Null for other events.
static std::shared_ptr<void> begin_shared_record(const EventState& e) {
  if (!e.shared) return nullptr;
  return {nullptr,
          [shared = e.shared, record = e.shared->record()](void*) { shared->complete(record); }};
}

API CUresult cuEventRecord(CUevent h, CUstream hs) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_EVENT_STATE(e, h);
  REQUIRE_WORK_STREAM(s, hs, c);
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
  uint64_t at = enqueue(s, [stamp, completion = begin_shared_record(*e)] {
    *stamp = now();
    return CUDA_SUCCESS;
  });
  std::lock_guard lock(c->mutex);
  e->recorded = true;
  e->stream = s;
  e->position = at;
  e->nanoseconds = std::move(stamp);
  return CUDA_SUCCESS;
}

// Under capture an external event is a node instead of an edge. Return false if the stream is not
// captured.
static bool capture_external(const StreamRef& s, CUevent event, CUgraphNodeType type) {
  NodeParams node;
  node.type = type;
  node.event = event;
  std::lock_guard lock(s->context->mutex);
  if (!s->capture) return false;
  capture_call(*s, std::move(node), {});
  return true;
}

API CUresult cuEventRecordWithFlags(CUevent h, CUstream hs, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_EVENT_STATE(e, h);
  REQUIRE_WORK_STREAM(s, hs, c);
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && e->shared && is_captured(s)) return CUDA_ERROR_NOT_SUPPORTED;
  return flags && capture_external(s, h, CU_GRAPH_NODE_TYPE_EVENT_RECORD) ? CUDA_SUCCESS
                                                                          : cuEventRecord(h, hs);
}

API CUresult cuEventQuery(CUevent h) {
  REQUIRE_DRIVER();
  REQUIRE_EVENT_STATE(e, h);
  std::lock_guard lock(e->context->mutex);
  if (e->capture) {
    invalidate(*e->capture);
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (e->context->error) return e->context->error;
  if (e->shared && !e->shared->is_complete(e->shared->newest()) && !e->shared->recorder_has_ended())
    return CUDA_ERROR_NOT_READY;
  return e->recorded && e->stream->completed < e->position ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

API CUresult cuEventSynchronize(CUevent h) {
  REQUIRE_DRIVER();
  REQUIRE_EVENT_STATE(e, h);
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
  CUresult r = s ? wait_for(s, at) : e->context->error.load();
  if (r || !e->shared) return r;
  return wait_for_shared(e->context, *e->shared, e->shared->newest());
}

// Get the time of an event in nanoseconds.
static CUresult time_of(EventState* e, double& out) {
  std::lock_guard lock(e->context->mutex);
  if (!e->timed || !e->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (e->stream->completed < e->position) return CUDA_ERROR_NOT_READY;
  out = (double)*e->nanoseconds;
  return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  REQUIRE_EVENT_STATE(x, a);
  REQUIRE_EVENT_STATE(y, b);
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  double from = 0, to = 0;
  CUresult r = time_of(x, from), q = time_of(y, to);
  if (r == CUDA_ERROR_INVALID_HANDLE || q == CUDA_ERROR_INVALID_HANDLE)
    return CUDA_ERROR_INVALID_HANDLE;
  if (r || q) return CUDA_ERROR_NOT_READY;
  *ms = (float)((to - from) / 1e6);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}

API CUresult cuStreamWaitEvent(CUstream hs, CUevent h, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_EVENT_STATE(e, h);
  REQUIRE_WORK_STREAM(s, hs, c);
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && e->shared && is_captured(s)) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags && capture_external(s, h, CU_GRAPH_NODE_TYPE_WAIT_EVENT)) return CUDA_SUCCESS;
  if (CUresult r = capture_wait(c, s, e); r != CUDA_ERROR_NOT_READY) return r;
  if (e->shared) {
    enqueue(s, [c, shared = e->shared, record = e->shared->newest()] {
      return wait_for_shared(c, *shared, record);
    });
    return CUDA_SUCCESS;
  }
  StreamDependency dependency;
  {
    std::lock_guard lock(e->context->mutex);
    if (!e->recorded) return CUDA_SUCCESS;
    dependency = {e->stream, e->position};
  }
  if (e->context == c)
    enqueue(s, [] { return CUDA_SUCCESS; }, {dependency});
  else
    enqueue(s, [dependency] {
      return wait_for(dependency.stream, dependency.position);
    });  // another context has another mutex
  return CUDA_SUCCESS;
}
