// CUDA entry points: events.
#include "client/event.h"

#include "client/api/captured_node.h"
#include "client/api/require.h"
#include "client/call.h"
#include "client/create_event.h"
#include "client/mapped.h"

using namespace busbar;
using namespace busbar::client;

// The session server creates the page that sessions share, and then gives it the id of the event.
static CUresult create_shared_part(Context* c, uint32_t id) {
  Link* link = c->device->link;
  uint64_t reply = link->next_id();
  wire::Encoder<> r(wire::Op::ipc_create_event, c->id);
  r.put(reply).put(id);
  return (CUresult)link->call(reply, r.finish(), r.size()).status;
}

API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  REQUIRE_CONTEXT(c);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t id = session()->next_id++;
  if (flags & CU_EVENT_INTERPROCESS)
    if (CUresult r = create_shared_part(c, id)) return r;
  return create_event(c, id, flags, out);
}

CUresult busbar::client::create_event(Context* c, uint32_t id, unsigned flags, CUevent* out) {
  auto* e = new Event;
  e->context = c;
  e->flags = flags;
  e->id = id;
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
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  Event* e = session()->events.remove(h);
  if (!e) return CUDA_ERROR_INVALID_HANDLE;
  wire::Encoder<> r(wire::Op::destroy_event, e->context->id);
  r.put(e->id);
  e->context->device->link->submit(r.finish(), r.size());
  delete e;
  return CUDA_SUCCESS;
}

// Queries an event that a graph or another session records: its node may be complete before the
// launch of the graph is.
static CUresult query_event(const Event& e) {
  Link* link = e.context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::query_event, e.context->id);
  r.put(id).put(e.id);
  return (CUresult)link->call(id, r.finish(), r.size()).status;
}

// Waits until the session server has seen the newest record of a shared event: the program may tell
// another session of it.
static CUresult wait_for_decoding(const Event& e) {
  CUresult r = query_event(e);
  return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

API CUresult cuEventRecord(CUevent h, CUstream stream) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  REQUIRE_EVENT(e, h);
  if (e->context != call.context()) return CUDA_ERROR_INVALID_HANDLE;
  MutexLock lock(e->mutex);
  wire::Encoder<> r(wire::Op::record_event, call.context_id(), call.stream_id());
  r.put(e->id);
  bool captured = call.stream()->capturing;
  if (captured || e->capture) record_captured_event(*call.stream(), *e);
  uint64_t at = call.link()->submit(r.finish(), r.size());
  if (!at) return call.link()->error();
  if (captured) return CUDA_SUCCESS;
  record_submission(call.stream(), at);
  if (e->stream.get() != call.stream()) e->stream = retain(call.stream());
  e->position = at;
  e->by_graph = false;
  return e->shared() ? wait_for_decoding(*e) : CUDA_SUCCESS;
}
API CUresult cuEventRecordWithFlags(CUevent h, CUstream stream, unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  Stream* s = flags && c ? find_stream(stream, c) : nullptr;
  return s && s->capturing ? add_captured_event_node(stream, h, true) : cuEventRecord(h, stream);
}

API CUresult cuEventQuery(CUevent h) {
  REQUIRE_EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  MutexLock lock(e->mutex);
  e->context->device->link->poll_frames();
  if (CUresult r = e->context->device->link->error()) return r;
  CUresult r = CUDA_SUCCESS;
  if (e->stream && !e->stream->progress.reached(e->position))
    r = e->by_graph ? query_event(*e) : CUDA_ERROR_NOT_READY;
  else if (e->shared())
    r = query_event(*e);
  lock.unlock();
  return !r && has_host_mirrors() ? fetch_mapped(e->context) : r;
}

// Waits for the records of other sessions: a stream waits for them.
static CUresult wait_for_other_sessions(Event* e) {
  CUcontext previous;
  CUstream s;
  if (CUresult r = cuCtxPushCurrent((CUcontext)e->context->handle)) return r;
  CUresult r = cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
  if (!r) {
    r = cuStreamWaitEvent(s, (CUevent)e->handle, 0);
    if (!r) r = cuStreamSynchronize(s);
    cuStreamDestroy(s);
  }
  cuCtxPopCurrent(&previous);
  return r;
}

API CUresult cuEventSynchronize(CUevent h) {
  REQUIRE_EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  StreamRef s;
  uint64_t at;
  {
    MutexLock lock(e->mutex);
    s = e->stream;
    at = e->position;
  }
  CUresult r = s ? wait_for(s.get(), at) : e->context->device->link->error();
  if (!r && e->shared()) r = wait_for_other_sessions(e);
  if (!r) r = flush_kernel_output(e->context);
  return !r && has_host_mirrors() ? fetch_mapped(e->context) : r;
}

// Orders streams of two nodes: the calling thread waits for the event's node.
static CUresult wait_for_other_node(Event* e) {
  StreamRef s;
  uint64_t at;
  {
    MutexLock lock(e->mutex);
    s = e->stream;
    at = e->position;
  }
  return s ? wait_for(s.get(), at) : CUDA_SUCCESS;
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent h, unsigned flags) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  REQUIRE_EVENT(e, h);
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && call.stream()->capturing) return add_captured_event_node(stream, h, false);
  if (CUresult r = join_capture(*call.stream(), *e); r != CUDA_ERROR_NOT_READY && r) return r;
  if (e->context->device->link != call.link())
    return e->shared() ? cuEventSynchronize(h) : wait_for_other_node(e);
  wire::Encoder<> r(wire::Op::wait_event, call.context_id(), call.stream_id());
  r.put(e->id);
  return call.send(r.finish(), r.size());
}

static bool is_recorded(Event& e) {
  MutexLock lock(e.mutex);
  return e.stream != nullptr;
}

#undef cuEventElapsedTime
API CUresult cuEventElapsedTime_v2(float* ms, CUevent a, CUevent b) {
  REQUIRE_EVENT(x, a);
  REQUIRE_EVENT(y, b);
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if (((x->flags | y->flags) & CU_EVENT_DISABLE_TIMING) || !is_recorded(*x) || !is_recorded(*y))
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = cuEventQuery(a)) return r;
  if (CUresult r = cuEventQuery(b)) return r;
  Link* link = x->context->device->link;
  if (link != y->context->device->link) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::elapsed_time, x->context->id);
  r.put(id).put(x->id).put(y->id);
  Reply reply = link->call(id, r.finish(), r.size());
  wire::Decoder d(reply.body.data(), reply.body.size());
  if (!reply.status) *ms = d.get<float>();
  return (CUresult)reply.status;
}
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}
