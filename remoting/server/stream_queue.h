// Records that wait for a dependency or a resource, one FIFO per stream. Other streams continue
// meanwhile.
//
// Parked records have sequence numbers, which grow in the order of the link. A queue exists while
// it is busy: it holds records, or a host function of its stream runs.
//
// Thread safety: executor thread only. No member blocks.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/bulk_transfers.h"
#include "server/outcome.h"
#include "server/record.h"
#include "server/stream.h"

namespace busbar::server {

// The events and bytes that a record waits for.
struct Dependencies {
  uint32_t queue = 0;     // the record `sequence` of this queue has run; sequence 0: none
  uint64_t sequence = 0;  //
  uint64_t transfer = 0;  // so many bytes of this bulk transfer have arrived; 0: none
  uint64_t bytes = 0;
  std::vector<std::pair<uint32_t, uint64_t>> more;  // the same of other queues and sequences
};

class StreamQueues {
 public:
  // Runs a record whose dependencies are met.
  using Run = std::function<Outcome(Record&)>;
  StreamQueues(BulkTransfers& bulk, Run run) : bulk_(bulk), run_(std::move(run)) {}

  static constexpr uint32_t kBarrier = 0;  // the queue of barrier records
  // Queues from here on hold changes of executable graphs. No stream has such an id.
  static constexpr uint32_t kChanges = 1u << 31;

  bool idle() const { return queues_.empty(); }
  bool busy(uint32_t queue) const { return queues_.count(queue); }
  bool held(uint32_t queue) const;
  // True if a barrier or a change of an executable graph is parked, for which its caller may wait.
  bool has_call() const {
    return !queues_.empty() && (busy(kBarrier) || queues_.rbegin()->first >= kChanges);
  }
  uint64_t parked_bytes() const { return parked_bytes_; }
  // A stream of which too many bytes are parked, or no longer.
  struct PauseChange {
    uint32_t stream;
    bool paused;
  };
  // Returns the changes since the last call. Only queues of streams are paused.
  std::vector<PauseChange> take_pause_changes() { return std::exchange(pause_changes_, {}); }
  bool satisfied(const Dependencies& d) const;
  // True if a parked record has run. Sequence 0: it was not parked.
  bool has_run(uint32_t queue, uint64_t sequence) const;
  // True if nothing is parked that the legacy stream orders before new work of this stream.
  bool legacy_order_holds(const StreamState& st) const;

  // Parks a copy of the record. Returns its sequence number, or 0 when more than kMaxHeldBytes
  // are parked.
  uint64_t park(const StreamState& st, const Record& record, const Dependencies& dependencies);
  // The same for a barrier, which runs after everything that is parked now.
  uint64_t park_barrier(const Record& record);
  // The same for a change of an executable graph, in a queue from kChanges on.
  uint64_t park_change(uint32_t queue, const Record& record, const Dependencies& dependencies);

  // A host function of the program runs, or the GPU waits for a value: the records of the stream
  // behind it wait until resume(). Barriers wait for a host function only: the wait has been given
  // to the driver, and what ends it may come behind a barrier.
  enum class Hold { host_function, wait };
  void hold(const StreamState& st, Hold by = Hold::host_function);
  void resume(uint32_t queue);

  void run_ready();  // runs every record whose dependencies are met

 private:
  struct Parked {
    uint64_t sequence = 0;
    Record record;
    std::vector<uint8_t> payload;
    Dependencies dependencies;
  };
  // Order of a queue relative to the legacy stream of its context.
  struct LegacyOrder {
    uint32_t context = 0;
    bool legacy = false, blocking = false;
  };
  struct Queue {
    std::deque<Parked> parked;
    uint64_t hold = 0;     // sequence number of what holds the queue; 0: nothing does
    bool is_wait = false;  // that is a wait
    uint64_t bytes = 0;    // of the parked records
    bool paused = false;
    LegacyOrder order;
    // The lowest sequence number of the queue that has not run.
    uint64_t first() const { return hold ? hold : parked.front().sequence; }
  };
  static LegacyOrder order_of(const StreamState& st);
  static uint64_t cost_of(const Record& record);
  bool order_holds(const LegacyOrder& order, uint64_t sequence) const;
  bool barrier_holds(uint64_t sequence) const;
  Queue& make_busy(uint32_t queue, const LegacyOrder& order);
  uint64_t append(uint32_t queue, const LegacyOrder& order, const Record& record,
                  const Dependencies& dependencies);
  bool ready(uint32_t id, const Queue& q) const;
  bool run_head(uint32_t id);
  bool run_pass();
  void remove_if_idle(uint32_t queue);
  void pause(uint32_t id, Queue& q, bool paused);
  BulkTransfers& bulk_;
  Run run_;
  std::map<uint32_t, Queue> queues_;                   // busy ones
  std::unordered_map<uint32_t, uint32_t> legacy_;      // by context: its legacy queue, if busy
  std::vector<uint32_t> pass_;                         // queues of the current pass
  uint64_t last_sequence_ = 0, running_sequence_ = 0;  // running: 0 while no parked record runs
  uint64_t parked_bytes_ = 0;
  std::vector<PauseChange> pause_changes_;
  uint32_t first_of_pass_ = 0;  // a pass starts behind the queue that ran a record last
  bool running_ = false;
};

}  // namespace busbar::server
