// Events: places in a stream. A query compares two numbers; only a time, and an event in a graph,
// need the node.
#include "client/call.h"
#include "client/event_nodes.h"

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define EVENT(e, h)                                  \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Event* e = session()->events.get(h);               \
  if (!e) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  CURRENT(c);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto* e = new Event;
  e->context = c;
  e->flags = flags;
  e->id = session()->next_number++;
  wire::Encoder<> r(wire::Op::create_event, c->id);
  r.put(e->id).put<uint32_t>(flags);
  if (!c->device->link->submit(r.finish(), r.size())) {
    delete e;
    return c->device->link->error();
  }
  e->handle = session()->events.add(e);
  *out = (CUevent)e->handle;
  return CUDA_SUCCESS;
}

API CUresult cuEventDestroy(CUevent h) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  Event* e = session()->events.remove(h);
  if (!e) return CUDA_ERROR_INVALID_HANDLE;
  wire::Encoder<> r(wire::Op::destroy_event, e->context->id);
  r.put(e->id);
  e->context->device->link->submit(r.finish(), r.size());
  delete e;
  return CUDA_SUCCESS;
}

API CUresult cuEventRecord(CUevent h, CUstream stream) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  EVENT(e, h);
  if (e->context != call.context()) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(e->mutex);
  wire::Encoder<> r(wire::Op::record_event, call.context_id(), call.stream_id());
  r.put(e->id);
  bool captured = call.stream()->capturing;
  if (captured || e->capture) capture_record(*call.stream(), *e);
  uint64_t at = call.link()->submit(r.finish(), r.size());
  if (!at) return call.link()->error();
  if (captured) return CUDA_SUCCESS;
  submitted(call.stream(), at);
  if (e->stream.get() != call.stream()) e->stream = kept(call.stream());
  e->position = at;
  e->by_graph = false;
  return CUDA_SUCCESS;
}
API CUresult cuEventRecordWithFlags(CUevent h, CUstream stream, unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  Stream* s = flags && c ? stream_of(stream, c) : nullptr;
  return s && s->capturing ? capture_external(stream, h, true) : cuEventRecord(h, stream);
}

// The launch is not done; the node that records the event may be.
static CUresult ask_event(const Event& e) {
  Link* link = e.context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::query_event, e.context->id);
  r.put(id).put(e.id);
  return (CUresult)link->ask(id, r.finish(), r.size()).status;
}

API CUresult cuEventQuery(CUevent h) {
  EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  std::lock_guard lock(e->mutex);
  e->context->device->link->glance();
  if (CUresult r = e->context->device->link->error()) return r;
  if (!e->stream || e->stream->progress.completed.load(std::memory_order_acquire) >= e->position)
    return CUDA_SUCCESS;
  return e->by_graph ? ask_event(*e) : CUDA_ERROR_NOT_READY;
}

API CUresult cuEventSynchronize(CUevent h) {
  EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  StreamRef s;
  uint64_t at;
  {
    std::lock_guard lock(e->mutex);
    s = e->stream;
    at = e->position;
  }
  CUresult r = s ? wait_for(s.get(), at) : e->context->device->link->error();
  if (!r) r = take_output(e->context);
  return !r && mirrored() ? fetch_mapped(e->context) : r;
}

// Order across links goes through the client: it waits for the other node before it lets this
// stream go on.
static CUresult wait_across(Event* e) {
  StreamRef s;
  uint64_t at;
  {
    std::lock_guard lock(e->mutex);
    s = e->stream;
    at = e->position;
  }
  return s ? wait_for(s.get(), at) : CUDA_SUCCESS;
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent h, unsigned flags) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  EVENT(e, h);
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && call.stream()->capturing) return capture_external(stream, h, false);
  if (CUresult r = capture_wait(*call.stream(), *e); r != CUDA_ERROR_NOT_READY && r) return r;
  if (e->context->device->link != call.link()) return wait_across(e);
  wire::Encoder<> r(wire::Op::wait_event, call.context_id(), call.stream_id());
  r.put(e->id);
  return call.fire(r.finish(), r.size());
}

#undef cuEventElapsedTime
API CUresult cuEventElapsedTime_v2(float* ms, CUevent a, CUevent b) {
  EVENT(x, a);
  EVENT(y, b);
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if (((x->flags | y->flags) & CU_EVENT_DISABLE_TIMING) || !x->stream || !y->stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = cuEventQuery(a)) return r;
  if (CUresult r = cuEventQuery(b)) return r;
  Link* link = x->context->device->link;
  if (link != y->context->device->link) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::elapsed_time, x->context->id);
  r.put(id).put(x->id).put(y->id);
  Answer answer = link->ask(id, r.finish(), r.size());
  wire::Decoder d(answer.body.data(), answer.body.size());
  if (!answer.status) *ms = d.get<float>();
  return (CUresult)answer.status;
}
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}
