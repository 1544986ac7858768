#include "server/record_order.h"

#include <algorithm>
#include <string_view>

#include "server/operations.h"

namespace busbar::server {

using wire::Op;

EventState* RecordOrder::named_event(const Record& r) const {
  Op op = r.operation->op;
  if (op != Op::record_event && op != Op::wait_event) return nullptr;
  auto it = s_.events.find(r.decoder().get<uint32_t>());
  return it == s_.events.end() ? nullptr : &it->second;
}

CUgraphExec RecordOrder::launched_exec(const Record& r) const {
  if (r.operation->op != Op::launch_graph) return nullptr;
  return r.decoder().get<CUgraphExec>();
}

CUgraphExec RecordOrder::changed_exec(const Record& r) const {
  wire::Decoder in = r.decoder();
  return in.raw(r.operation->exec_at) ? in.get<CUgraphExec>() : nullptr;
}

// Without what is already satisfied.
Dependencies RecordOrder::dependencies_of(const Record& r) const {
  Dependencies d;
  if (TransferOf transfer_of = r.operation->transfer) {
    Transfer t = transfer_of(r);
    bool over_bulk = t.id && !(t.id & wire::kSharedChunkFlag);
    if (over_bulk && !s_.bulk.has(t.id, t.bytes)) {
      d.transfer = t.id;
      d.bytes = t.bytes;
    }
  }
  if (queues_.idle()) return d;
  if (CUgraphExec exec = launched_exec(r)) {
    if (auto it = launches_.find(exec); it != launches_.end())
      require(d, it->second.launch.queue, it->second.launch.sequence);
    for (uint32_t id : s_.graph_events.named(exec).awaited)
      if (EventState* e = graph_event(id)) require(d, *e);
  }
  EventState* e = r.operation->op == Op::wait_event ? named_event(r) : nullptr;
  if (e) require(d, *e);
  return d;
}

// Adds what may record an event.
void RecordOrder::require(Dependencies& d, const EventState& e) const {
  require(d, e.stream, e.sequence);
  require(d, e.maybe_stream, e.maybe_sequence);
}

// Adds a record of another stream for which to wait, unless it has run.
void RecordOrder::require(Dependencies& d, uint32_t queue, uint64_t sequence) const {
  if (queues_.has_run(queue, sequence)) return;
  if (d.sequence) {
    d.more.emplace_back(queue, sequence);
    return;
  }
  d.queue = queue;
  d.sequence = sequence;
}

// A captured record becomes a node, which waits for nothing. A stream joins a capture by waiting
// for one of its events. The client has waited for the earlier work of the stream.
bool RecordOrder::is_captured(const Record& r, const StreamState& st) const {
  bool is_wait = r.operation->op == Op::wait_event;
  bool joins = is_wait && s_.active_captures && r.event && r.event->captured;
  return (st.capturing || joins) && !queues_.busy(st.id);
}

Admission RecordOrder::admit(Record& r) {
  StreamState* st = r.head.stream == wire::kNoStream ? nullptr : s_.stream(r.head.stream);
  if (!st) return Admission::rejected;
  bind_event(r);
  Dependencies d = dependencies_of(r);
  if (is_captured(r, *st) && !d.transfer) return Admission::run;
  bind_launch(r, 0);
  bool ready = !d.transfer && !d.sequence;
  if (ready && (queues_.idle() || (!queues_.busy(st->id) && queues_.legacy_order_holds(*st))))
    return Admission::run;
  return park(r, *st, d);
}

Admission RecordOrder::park(const Record& r) {
  return park(r, *s_.stream(r.head.stream), {});
}

Admission RecordOrder::park(const Record& r, const StreamState& st, const Dependencies& d) {
  uint64_t sequence = queues_.park(st, r, d);
  if (!sequence) return Admission::rejected;
  if (r.operation->op == Op::record_event)
    if (EventState* e = named_event(r)) e->sequence = sequence;
  if (CUgraphExec exec = launched_exec(r)) {
    forget_launches();
    ParkedLaunch& parked = launches_[exec];
    parked.launch.queue = st.id;
    parked.launch.sequence = sequence;
    bind_launch(r, sequence);
  }
  return Admission::parked;
}

// Forgets launches that have run, each time the number of entries has doubled.
void RecordOrder::forget_launches() {
  if (launches_.size() < forget_at_) return;
  std::erase_if(launches_, [this](auto& entry) {
    return queues_.satisfied(entry.second.launch) && !queues_.busy(entry.second.changes);
  });
  // NOLINTNEXTLINE(custom-unchecked-product): the number of entries in memory
  forget_at_ = 2 * launches_.size() + kForgetAt;
}

EventState* RecordOrder::graph_event(uint32_t id) const {
  auto it = s_.events.find(id);
  return it == s_.events.end() ? nullptr : &it->second;
}

// Later waits for what the graph records wait for this launch. Sequence 0: it is not parked. An
// event that the graph may not record keeps a parked record of its own.
void RecordOrder::bind_launch(const Record& r, uint64_t sequence) {
  CUgraphExec exec = launched_exec(r);
  if (!exec) return;
  auto bind = [&](EventState& e) {
    e.stream = r.head.stream;
    e.sequence = sequence;
  };
  GraphEvents::Named named = s_.graph_events.named(exec);
  for (uint32_t id : named.maybe_recorded)
    if (EventState* e = graph_event(id)) {
      e->maybe_stream = r.head.stream;
      e->maybe_sequence = sequence;
    }
  for (uint32_t id : named.recorded)
    if (EventState* e = graph_event(id)) bind(*e);
}

namespace {
// Calls that can change the events of nodes of an executable graph.
bool may_change_events(const Operation& operation) {
  constexpr std::string_view kCalls[] = {
      "cuGraphExecUpdate_v2", "cuGraphExecChildGraphNodeSetParams",
      "cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"};
  return std::ranges::count(kCalls, operation.name);
}
}  // namespace

// The caller waits for the reply, so later launches of the program come after this record.
Admission RecordOrder::admit_change(const Record& r) {
  CUgraphExec exec = changed_exec(r);
  if (may_change_events(*r.operation)) s_.graph_events.change(exec);
  auto it = launches_.find(exec);
  if (!exec || it == launches_.end()) return Admission::run;
  ParkedLaunch& parked = it->second;
  if (queues_.satisfied(parked.launch) && !queues_.busy(parked.changes)) return Admission::run;
  if (!parked.changes) parked.changes = ++last_changes_;
  return queues_.park_change(parked.changes, r, parked.launch) ? Admission::parked
                                                               : Admission::rejected;
}

Admission RecordOrder::admit_barrier(const Record& r) {
  if (queues_.idle()) return Admission::run;
  return queues_.park_barrier(r) ? Admission::parked : Admission::rejected;
}

// A record of an event creates its next version; a wait names the newest version. Both are bound
// here, in the order of the link, and not when the stream gets there.
void RecordOrder::bind_event(Record& r) {
  EventState* e = named_event(r);
  if (!e) return;
  if (r.operation->op == Op::record_event) {
    bool in_use = e->current && e->current.use_count() > 1;
    if (!e->current || (in_use && !e->in_graph))
      e->current = std::make_shared<DriverEvent>(s_.cu, e->flags);
    e->stream = r.head.stream;
    e->sequence = e->maybe_sequence = 0;
  }
  r.event = e->current;
  if (!e->shared || s_.stream(r.head.stream)->capturing) return;
  r.shared_event = e->shared;
  r.shared_record = r.operation->op == Op::record_event
                        ? s_.shared_events.begin_record(*e->shared, s_.account)
                        : e->shared->newest();
}

}  // namespace busbar::server
