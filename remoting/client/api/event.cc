// CUDA entry points: events.
#include "client/event.h"

#include "client/api/require.h"
#include "client/call.h"
#include "client/captured_node.h"
#include "client/mapped.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  REQUIRE_CONTEXT(c);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto* e = new Event;
  e->context = c;
  e->flags = flags;
  e->id = session()->next_id++;
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

API CUresult cuEventRecord(CUevent h, CUstream stream) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  REQUIRE_EVENT(e, h);
  if (e->context != call.context()) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(e->mutex);
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
  return CUDA_SUCCESS;
}
API CUresult cuEventRecordWithFlags(CUevent h, CUstream stream, unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  Stream* s = flags && c ? find_stream(stream, c) : nullptr;
  return s && s->capturing ? add_captured_event_node(stream, h, true) : cuEventRecord(h, stream);
}

// Queries an event of a graph that runs: its node may be complete before the launch is.
static CUresult query_event(const Event& e) {
  Link* link = e.context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::query_event, e.context->id);
  r.put(id).put(e.id);
  return (CUresult)link->call(id, r.finish(), r.size()).status;
}

API CUresult cuEventQuery(CUevent h) {
  REQUIRE_EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  std::unique_lock lock(e->mutex);
  e->context->device->link->poll_frames();
  if (CUresult r = e->context->device->link->error()) return r;
  CUresult r = CUDA_SUCCESS;
  if (e->stream && !e->stream->progress.reached(e->position))
    r = e->by_graph ? query_event(*e) : CUDA_ERROR_NOT_READY;
  lock.unlock();
  return !r && has_host_mirrors() ? fetch_mapped(e->context) : r;
}

API CUresult cuEventSynchronize(CUevent h) {
  REQUIRE_EVENT(e, h);
  if (CUresult r = forbid_captured(*e)) return r;
  StreamRef s;
  uint64_t at;
  {
    std::lock_guard lock(e->mutex);
    s = e->stream;
    at = e->position;
  }
  CUresult r = s ? wait_for(s.get(), at) : e->context->device->link->error();
  if (!r) r = flush_kernel_output(e->context);
  return !r && has_host_mirrors() ? fetch_mapped(e->context) : r;
}

// Orders streams of two nodes: the calling thread waits for the event's node.
static CUresult wait_for_other_node(Event* e) {
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
  REQUIRE_EVENT(e, h);
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags && call.stream()->capturing) return add_captured_event_node(stream, h, false);
  if (CUresult r = join_capture(*call.stream(), *e); r != CUDA_ERROR_NOT_READY && r) return r;
  if (e->context->device->link != call.link()) return wait_for_other_node(e);
  wire::Encoder<> r(wire::Op::wait_event, call.context_id(), call.stream_id());
  r.put(e->id);
  return call.send(r.finish(), r.size());
}

#undef cuEventElapsedTime
API CUresult cuEventElapsedTime_v2(float* ms, CUevent a, CUevent b) {
  REQUIRE_EVENT(x, a);
  REQUIRE_EVENT(y, b);
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
  Reply reply = link->call(id, r.finish(), r.size());
  wire::Decoder d(reply.body.data(), reply.body.size());
  if (!reply.status) *ms = d.get<float>();
  return (CUresult)reply.status;
}
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}
