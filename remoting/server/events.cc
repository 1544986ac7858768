// Events of the program.
#include "server/event.h"

#include "server/capture.h"
#include "server/handlers.h"
#include "server/pipeline.h"
#include "server/reply.h"
#include "server/retire_shared.h"
#include "server/submit.h"

namespace busbar::server {

// event, flags
bool handlers::create_event(Pipeline& p, const Record& r) {
  constexpr uint32_t kDriverFlags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
  wire::Decoder in = r.decoder();
  uint32_t id = in.get<uint32_t>(), flags = in.get<uint32_t>();
  if (p.session.events.size() >= wire::kMaxObjects) return false;
  if (auto known = p.session.events.find(id); known != p.session.events.end())
    retire_shared(p, known->second);
  EventState e;
  e.context = r.head.context;
  e.flags = flags & kDriverFlags;
  if (flags & CU_EVENT_INTERPROCESS) {
    e.shared = p.session.shared_events.take(id);
    end_retired(p);
    p.session.work_waits = true;  // for the work of another session
  }
  p.session.events[id] = std::move(e);
  return in.ok();
}

// event
bool handlers::destroy_event(Pipeline& p, const Record& r) {
  auto it = p.session.events.find(r.decoder().get<uint32_t>());
  if (it == p.session.events.end()) return true;
  retire_shared(p, it->second);
  end_retired(p);
  p.session.events.erase(it);
  return true;
}

// The GPU completes the record of a shared event, or the session does if the driver cannot.
static void record_shared(Pipeline& p, const Record& r, StreamState& st) {
  CUresult error = r.shared_event->record(st.handle, r.shared_record);
  if (error) r.shared_event->complete(r.shared_record);
  p.fences.check(error, st);
}

// event. The fence is recorded first: a stream that waits for the event has then waited for the
// fence, and completions are published in causal order.
Outcome handlers::record_event(Pipeline& p, Record& r, StreamState& st) {
  if (r.event) p.fences.check(r.event->error);
  if (!st.capturing) p.fences.record(st, r.position);
  if (r.event) r.event->captured = st.capturing;
  if (r.event && r.event->handle)
    p.fences.check(p.session.cu.cuEventRecord(r.event->handle, st.handle), st);
  if (r.shared_event) record_shared(p, r, st);
  return Outcome::done;
}

// event. A stream joins a capture by waiting for an event of the capture.
Outcome handlers::wait_event(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  bool may_join = s.active_captures && !st.capturing;
  if (may_join) p.fences.record_last(st);  // as begin_capture() does
  if (may_join && r.event && r.event->captured) p.fences.check(enter_capture(s, st), st);
  if (r.event && r.event->handle)
    p.fences.check(s.cu.cuStreamWaitEvent(st.handle, r.event->handle, 0), st);
  if (r.shared_event) p.fences.check(r.shared_event->order_after(st.handle, r.shared_record), st);
  if (may_join) {
    update_capturing(s, st);
    if (st.capturing) st.last_fence = st.last_work;  // the wait is part of the capture, not work
  }
  return Outcome::done;
}

// event, event -> milliseconds
bool handlers::elapsed_time(Pipeline& p, const Record& r) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  auto start = s.events.find(in.get<uint32_t>()), end = s.events.find(in.get<uint32_t>());
  if (start == s.events.end() || end == s.events.end() || !start->second.current ||
      !end->second.current) {
    s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
    return true;
  }
  auto measure = [&s, reply, a = start->second.current, b = end->second.current](bool wait) {
    if (wait) {
      s.cu.cuEventSynchronize(a->handle);
      s.cu.cuEventSynchronize(b->handle);
    }
    float ms = 0;
    CUresult result = s.cu.cuEventElapsedTime(&ms, a->handle, b->handle);
    if (result == CUDA_ERROR_NOT_READY && !wait) return false;
    std::string out;
    append(out, ms);
    s.reply(reply, result, out);
    return true;
  };
  // Their fences have completed, so the events are next.
  if (!measure(false)) post(p, p.workers.synchronize, 0, [measure] { measure(true); });
  return true;
}

// event -> its state, for an event that a graph or another session records: it has no completion
// fence. Not ready while the launch of that graph is parked.
bool handlers::query_event(Pipeline& p, const Record& r) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  auto it = s.events.find(in.get<uint32_t>());
  CUresult status = CUDA_ERROR_INVALID_HANDLE;
  if (it != s.events.end() && it->second.shared)
    status = it->second.shared->is_complete(it->second.shared->newest()) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_NOT_READY;
  else if (it != s.events.end() && it->second.current)
    status = p.queues.has_run(it->second.stream, it->second.sequence) &&
                     p.queues.has_run(it->second.maybe_stream, it->second.maybe_sequence)
                 ? s.cu.cuEventQuery(it->second.current->handle)
                 : CUDA_ERROR_NOT_READY;
  s.reply(reply, status);
  return true;
}

}  // namespace busbar::server
