// Decides whether work may be submitted to one GPU now: the launcher gives turns (ADR 83). Bounds
// the time that the submitted work is expected to need until it has ended.
//
// Work may wait for work that this gate refuses. So when no work ends for a long time in a turn,
// what is in flight takes no place of other work any more. The turn does not end without it all the
// same: whether it waits or runs cannot be seen from here.
//
// Thread safety: executor thread only, except what is marked.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "control/turn_messages.h"
#include "server/backlog.h"
#include "server/work_times.h"
#include "transport/clock.h"

namespace busbar::server {

// Records with work of one stream, of which a completion fence tells the end.
struct WorkBatch {
  static constexpr uint32_t kKeys = 16;
  uint32_t records = 0;
  uint32_t keys = 0;           // different ones
  uint64_t key[kKeys] = {};    // see work_key.h
  uint32_t count[kKeys] = {};  // records of each
  uint32_t newest_key = 0;     // index; kKeys: none
  WorkTime expected, newest;   // of all records, and of the newest one
  int64_t since = 0;           // when the first one was submitted
  uint64_t number = 0;         // of its fence
  bool has_work() const { return records; }
};

// A record with work, as the gate sees it.
struct WorkRecord {
  uint64_t key = 0;           // see work_key.h; 0 while the gate is open
  uint64_t position = 1;      // in the order of the session
  uint64_t newest_fence = 0;  // of its stream: the numbers of the newest fence,
  uint64_t ended_fence = 0;   // and of the newest one that has completed
  bool has_room = true;       // in the backlog of its stream, which counts while the gate is open
};

class TurnGate {
 public:
  // Sends a notice to the arbiter. False when it cannot be sent now.
  using Send = bool (*)(void* context, const control::TurnNotice& notice);
  using Clock = int64_t (*)();  // nanoseconds; any thread
  TurnGate(uint32_t partition, Send send, void* context, Clock clock = transport::now_ns)
      : partition_(partition), send_(send), context_(context), clock_(clock) {}

  // True while work needs no turn.
  bool is_open() const { return state() == control::TurnState::open; }
  // True if a record with work may be submitted. Otherwise it waits: for a turn, for which this
  // asks the arbiter, or for earlier work to end.
  bool may_submit(const WorkRecord& record);
  // Work of one record, which may be submitted, is added to the batch of its stream.
  void add(WorkBatch& batch, uint64_t key);
  // The newest record of the batch was not submitted after all.
  void remove_newest(WorkBatch& batch);
  // The batch ends without a fence: its stream is gone.
  void discard(WorkBatch& batch);
  // A fence behind the batch is submitted. Returns what to give to complete().
  WorkBatch add_fence(WorkBatch& batch);
  // A part of what may be unfinished has no fence: with one, the GPU goes on while the next part is
  // submitted. `batch`: to which a record was added last.
  bool needs_fence(const WorkBatch& batch) const;

  // Called before parked records are tried again.
  void begin_pass() {
    blocked_ = false;
    is_refused_again_ = false;
  }
  // Called after that: reports a turn whose work has ended, and asks for one.
  void end_pass();
  bool is_draining() const;  // the turn is over, and work may still run

  // ---- any thread ----
  // The fence behind a batch has completed. `backlog`: of its stream. For one thread at a time.
  void complete(const WorkBatch& batch, Backlog& backlog);
  // Replaces the source of turns: `word` is valid for ever. A new source knows nothing of this
  // gate.
  void use(const std::atomic<uint32_t>* word);
  const std::atomic<uint32_t>& word() const { return *word_.load(std::memory_order_relaxed); }
  bool has_turn() const { return state() == control::TurnState::turn; }
  uint32_t submissions() const { return submissions_.load(std::memory_order_relaxed); }
  bool has_unfenced() const { return unfenced_; }  // executor thread
  bool has_fenced() const { return fences_.load(std::memory_order_relaxed); }
  // Nothing has happened for a while: the turn ends unless there is work.
  void suggest_end() { end_suggested_.store(true, std::memory_order_relaxed); }
  // True while unfinished work may wait for work that is not admitted: the executor must look from
  // time to time.
  bool may_stall() const { return has_fenced() && blocked_ && has_turn(); }

  // Work that no record submits runs between these two, of one thread at a time. begin_outside()
  // blocks until the executor admits the work, in a turn or while the gate is open, but a second at
  // most. `wake` makes the executor look.
  void begin_outside(const std::function<void()>& wake);
  void end_outside();

  static const std::atomic<uint32_t> kOpen, kClosed;  // sources without a launcher

 private:
  control::TurnState state() const {
    return control::state_of_word(word().load(std::memory_order_acquire));
  }
  bool used_single() const { return single_turn_ == turn_; }
  uint32_t observe();
  bool send(control::TurnOp op, bool wants);
  void ask();
  void report(bool wants);
  void note_late();
  void report_late();
  bool has_room(const WorkRecord& record) const;
  bool admits(control::TurnState state, const WorkRecord& record);
  bool is_behind_stall(const WorkRecord& record) const;
  void look_for_stall();
  void reserve(uint64_t position);
  WorkTime expected(uint64_t key) const;
  // Without what may wait for other work.
  uint32_t in_flight() const { return unfenced_ + fenced_.load(std::memory_order_relaxed); }
  WorkTime time_in_flight() const;
  bool has_unfinished() const {
    return unfenced_ || fences_.load(std::memory_order_acquire) || outside_ == Outside::runs;
  }
  bool wants() const { return blocked_ || outside_ == Outside::waits; }
  bool may_run_outside(control::TurnState state);
  void admit_outside();
  void learn(const WorkBatch& batch, int64_t took);

  const uint32_t partition_;
  const Send send_;
  void* const context_;
  const Clock clock_;
  uint32_t turn_ = 0;                 // the newest turn that was seen
  uint32_t single_turn_ = 0;          // the newest turn whose single record was submitted
  bool holds_ = false;                // it has not been reported as drained
  bool has_late_ = false;             // work of an earlier turn has not ended
  uint32_t late_turn_ = 0;            // that turn
  bool asked_ = false;                // for the next one
  std::atomic<bool> blocked_{false};  // a record waits for a turn or for earlier work
  uint32_t unfenced_ = 0;             // records without a fence
  WorkTime unfenced_time_;
  uint32_t seen_source_ = 0;
  uint64_t reserved_ = 0;    // position of the first record that was refused; 0: none
  int64_t reserved_at_ = 0;  // since then
  bool is_refused_again_ = false;
  uint64_t still_after_ = 0;  // completed_ when work was first seen in flight since
  int64_t still_since_ = 0;   // and the time of that, or of the newest submission
  std::atomic<const std::atomic<uint32_t>*> word_{&kOpen};
  std::atomic<uint32_t> source_{0};  // counts the calls of use()
  std::mutex fenced_mutex_;          // guards the writes of the next ones
  uint64_t newest_fence_ = 0;
  uint64_t waiting_fence_ = 0;  // work up to this fence that has not ended may wait for other work
  uint64_t late_fence_ = 0;     // the newest one of the late turn; 0: there may be later ones
  std::atomic<uint32_t> late_fences_{0};  // those up to it that have not completed
  std::atomic<uint32_t> fences_{0};
  std::atomic<uint32_t> fenced_{0};  // records with a later fence than that
  std::atomic<int64_t> fenced_average_{0}, fenced_longest_{0};  // their times
  std::atomic<uint32_t> submissions_{0};
  std::atomic<uint64_t> completed_{0};  // fences
  std::atomic<bool> end_suggested_{false};
  enum class Outside { none, waits, runs };
  std::atomic<Outside> outside_{Outside::none};  // work of begin_outside()
  std::mutex outside_mutex_;                     // guards its writes
  std::condition_variable outside_changed_;
  WorkTimes times_;
  // Of the thread that completes: the time of its last call, and for how long the GPU has worked.
  int64_t completed_at_ = 0, worked_ns_ = 0;
};

}  // namespace busbar::server
