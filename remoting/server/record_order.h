// The second stage of the executor: decides whether a record runs now or waits in a stream queue.
//
// Records of one stream run in order. A barrier record runs after everything that is parked. A
// record also waits for the bulk bytes that it needs, for parked records of streams that the legacy
// stream orders with its own, and for the parked record of an event that it names. Launches of one
// executable graph run in order, and before later changes of it. A launch is a record of the events
// that the graph records, and waits for those for which the graph waits. Records of a capture wait
// for nothing, so that the capture ends as soon as the client ends it.
//
// Thread safety: executor thread only.
#pragma once
#include <unordered_map>

#include "server/record.h"
#include "server/session.h"
#include "server/stream_queue.h"

namespace busbar::server {

enum class Admission { run, parked, rejected };  // rejected: malformed, or too much is parked

class RecordOrder {
 public:
  RecordOrder(Session& session, StreamQueues& queues) : s_(session), queues_(queues) {}

  // Binds the event that a stream record names, and parks the record if it must wait.
  Admission admit(Record& r);
  // The same for a barrier record.
  Admission admit_barrier(const Record& r);
  // The same for a record that changes an executable graph: parked launches come first.
  Admission admit_change(const Record& r);
  // Parks a stream record that was admitted and waits for a resource.
  Admission park(const Record& r);

 private:
  EventState* named_event(const Record& r) const;  // null: the record names none that exists
  void bind_event(Record& r);
  bool is_captured(const Record& r, const StreamState& st) const;
  EventState* graph_event(uint32_t id) const;  // null: it exists no longer
  void bind_launch(const Record& r, uint64_t sequence);
  void require(Dependencies& d, const EventState& e) const;
  void require(Dependencies& d, uint32_t queue, uint64_t sequence) const;
  Dependencies dependencies_of(const Record& r) const;
  Admission park(const Record& r, const StreamState& st, const Dependencies& dependencies);
  CUgraphExec changed_exec(const Record& r) const;  // null: none
  CUgraphExec launched_exec(const Record& r) const;
  void forget_launches();
  Session& s_;
  StreamQueues& queues_;
  // The newest parked launch of an executable graph, and the queue of the changes behind it.
  struct ParkedLaunch {
    Dependencies launch;
    uint32_t changes = 0;
  };
  static constexpr size_t kForgetAt = 64;
  std::unordered_map<CUgraphExec, ParkedLaunch> launches_;
  size_t forget_at_ = kForgetAt;
  uint32_t last_changes_ = StreamQueues::kChanges;
};

}  // namespace busbar::server
