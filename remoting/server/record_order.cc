#include "server/record_order.h"

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

bool RecordOrder::waits_for_launch(CUgraphExec exec) const {
  auto it = launches_.find(exec);
  return it != launches_.end() && !queues_.satisfied(it->second.launch);
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
  if (CUgraphExec exec = launched_exec(r); exec && waits_for_launch(exec)) {
    Dependencies launch = launches_.at(exec).launch;
    d.queue = launch.queue;
    d.sequence = launch.sequence;
  }
  EventState* e = r.operation->op == Op::wait_event && !queues_.idle() ? named_event(r) : nullptr;
  if (!e) return d;
  Dependencies event{e->stream, e->sequence, 0, 0};
  if (queues_.satisfied(event)) return d;
  d.queue = event.queue;
  d.sequence = event.sequence;
  return d;
}

// A captured record becomes a node, which waits for nothing. A stream joins a capture by waiting for
// one of its events. The client has waited for the earlier work of the stream.
bool RecordOrder::is_captured(const Record& r, const StreamState& st) const {
  bool joins = s_.active_captures && r.event && r.event->captured;
  return (st.capturing || joins) && !queues_.busy(st.id);
}

Admission RecordOrder::admit(Record& r) {
  StreamState* st = r.head.stream == wire::kNoStream ? nullptr : s_.stream(r.head.stream);
  if (!st) return Admission::rejected;
  bind_event(r);
  Dependencies d = dependencies_of(r);
  if (is_captured(r, *st) && !d.transfer) return Admission::run;
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

// The caller waits for the reply, so later launches of the program come after this record.
Admission RecordOrder::admit_change(const Record& r) {
  CUgraphExec exec = launches_.empty() ? nullptr : changed_exec(r);
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
    e->sequence = 0;
  }
  r.event = e->current;
  if (!e->shared || s_.stream(r.head.stream)->capturing) return;
  r.shared_event = e->shared;
  r.shared_record = r.operation->op == Op::record_event
                        ? s_.shared_events.begin_record(*e->shared, s_.account)
                        : e->shared->newest();
}

}  // namespace busbar::server
