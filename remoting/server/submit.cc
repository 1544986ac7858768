#include "server/submit.h"

#include <memory>
#include <vector>

#include "server/operations.h"
#include "server/pinned_graphs.h"
#include "server/work_key.h"

namespace busbar::server {

namespace {

// The driver queues 1,024 entries of a stream; a record makes at most three: work, fence and event.
constexpr uint64_t kRecordsInDriver = 256;
constexpr uint64_t kPostedBytes = 256;  // that a posted record needs beside its payload

Outcome run_handler(Pipeline& p, Record& r, StreamState& st) {
  if (r.operation->work_waits) p.session.work_waits = true;
  if (r.operation->stream) return r.operation->stream(p, r, st);
  wire::Decoder in = r.decoder();
  std::string no_results;
  p.fences.check(r.operation->call(p.session, in, st.handle, no_results), st);
  return Outcome::done;
}

// Returns false while the stream has as much submitted work as the driver queues without waiting.
// Work that waits for a later record must not fill the driver's queue: the executor would block in
// the driver and never read that record.
bool driver_has_room(Pipeline& p, StreamState& st) {
  auto room = [&] {
    return st.use->submitted - st.use->completed < kRecordsInDriver;
  };
  if (!p.session.work_waits || st.capturing || room()) return true;
  p.fences.record_last(st);
  p.fences.completions().poll();
  return room();
}

// True if the stream waits for a value, which a later record may write.
bool waits_for_value(const Record& r) {
  return r.operation->work_waits || (r.shared_event && r.operation->op == wire::Op::wait_event);
}

// During turns, the records behind a wait are kept until it has ended. The work of a turn that
// waited on the GPU for work of the next turn would keep the GPU from others.
void hold_until_ended(Pipeline& p, StreamState& st, uint64_t position) {
  if (st.capturing || !st.gate || st.gate->is_open()) return;
  CompletionFence fence;
  fence.ends_hold = true;
  p.queues.hold(st, StreamQueues::Hold::wait);
  p.fences.record(st, position, std::move(fence));
}

// Work may wait for a later record. The program may submit that one only after a call that waits
// for records to be submitted, not for their end.
bool backlog_has_room(const Pipeline& p, const StreamState& st) {
  return st.use->backlog.has_room(st.unfenced.records) || p.session.work_waits ||
         p.queues.has_call();
}

bool needs_fence(const StreamState& st) {
  return st.gate->is_open() ? st.use->backlog.needs_fence(st.unfenced.records)
                            : st.gate->needs_fence(st.unfenced);
}

Outcome submit_to_stream(Pipeline& p, Record& r) {
  StreamState* st = p.session.stream(r.head.stream);
  if (!st) return Outcome::done;
  p.session.use_context(st->context);
  if (!driver_has_room(p, *st)) return Outcome::waits;
  bool uses_gpu = r.operation->uses_gpu && !st->capturing;
  if (uses_gpu && p.keeps_work) return Outcome::waits;
  TurnGate* gate = uses_gpu ? st->gate : nullptr;
  bool is_open = gate && gate->is_open();
  uint64_t key = gate && !is_open ? work_key(r) : 0;
  bool has_room = !is_open || backlog_has_room(p, *st);
  if (gate &&
      !gate->may_submit({key, r.position, st->newest_fence, st->use->ended_fence, has_room}))
    return Outcome::waits;
  if (gate) gate->add(st->unfenced, key);
  st->works = gate;
  p.fences.begin_work(*st, r.position);
  bool was_launched = r.launched;
  Outcome outcome = run_handler(p, r, *st);
  st->works = false;
  if (outcome == Outcome::done) p.fences.end_work(*st, r.position);
  if (outcome == Outcome::done && waits_for_value(r)) hold_until_ended(p, *st, r.position);
  if (gate && outcome == Outcome::waits) {
    if (r.launched && !was_launched)
      p.fences.record(*st, r.position - 1);  // the graph runs already, and its outputs wait
    else
      gate->remove_newest(st->unfenced);  // nothing since its newest fence: the record runs again
  }
  if (gate && needs_fence(*st)) p.fences.record_last(*st);
  return outcome;
}

// A session handler, or a generated call with a reply.
void call_in_session(Session& s, const Operation& operation, wire::Decoder in) {
  if (operation.session) return operation.session(s, in);
  uint64_t reply = in.get<uint64_t>();
  std::string results;
  CUresult status = operation.call(s, in, nullptr, results);
  s.reply(reply, status, results);
}

Outcome run_barrier(Pipeline& p, const Record& r) {
  p.session.use_context(r.head.context);
  if (r.operation->pipeline) return well_formed(r.operation->pipeline(p, r));
  run_in_session(p, r);
  return Outcome::done;
}

}  // namespace

void run_in_session(Pipeline& p, const Record& r) {
  Session& s = p.session;
  if (r.operation->thread == wire::Thread::executor)
    return call_in_session(s, *r.operation, r.decoder());
  auto payload = std::make_shared<std::vector<uint8_t>>(r.payload, r.payload + r.payload_bytes());
  auto graphs = std::make_shared<PinnedGraphs>(s.objects, r);
  if (graphs->captured()) return s.reply(r.decoder().get<uint64_t>(), CUDA_ERROR_INVALID_VALUE);
  post(p, p.workers.of(r.operation->thread), r.payload_bytes(),
       [&s, payload, graphs, operation = r.operation] {
         graphs->run([&] {
           call_in_session(s, *operation, wire::Decoder(payload->data(), payload->size()));
         });
       });
}

void post(Pipeline& p, Worker& worker, uint64_t bytes, std::function<void()> work) {
  Session& s = p.session;
  uint64_t cost = kPostedBytes + bytes;
  s.posted_bytes += cost;
  worker.post(s.current, [&s, cost, work = std::move(work)] {
    work();
    s.posted_bytes -= cost;
    if (s.all_paused) s.link.wake();
  });
}

Outcome submit(Pipeline& p, Record& r) {
  return r.operation->order == wire::Order::stream ? submit_to_stream(p, r) : run_barrier(p, r);
}

}  // namespace busbar::server
