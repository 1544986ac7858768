#include "server/turn_gate.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace busbar::server {

using control::TurnState;

namespace {
// Unfinished work of a turn: it runs on when the turn has ended, and is paid for with later turns.
// On the average it needs this long, and should every record take the longest time of its kind,
// kMostNs. A record of which nothing is known counts as kMostNs: it is measured alone. Two shorter
// records are always in flight, so that the GPU goes on with the second one.
constexpr int64_t kInFlightNs = 4'000'000, kMostNs = 50'000'000;
constexpr uint32_t kMostInFlight = 256;
// Records that may take longer get a fence each, which measures them. The completion of a fence
// takes some ten microseconds.
constexpr int64_t kOwnFenceNs = 500'000;
// When no work has ended for so long, and for twice as long as was expected, it may wait for other
// work.
constexpr int64_t kStallNs = 20'000'000;
// A record that finds no room for so long is the next one: others would take its place for ever.
constexpr int64_t kPatienceNs = 10'000'000;
// Other work of the thread waits meanwhile, such as the return of memory to another session.
constexpr std::chrono::seconds kMostOutsideWait{1};
}  // namespace

constinit const std::atomic<uint32_t> TurnGate::kOpen{control::turn_word(0, TurnState::open)};
constinit const std::atomic<uint32_t> TurnGate::kClosed{control::turn_word(0, TurnState::closed)};

void TurnGate::use(const std::atomic<uint32_t>* word) {
  word_.store(word, std::memory_order_relaxed);
  source_.fetch_add(1, std::memory_order_release);
}

// Returns the word. Notices a new turn, also one that has ended meanwhile: it must be reported,
// too. The source is read before the word: a word of a newer source is seen again.
uint32_t TurnGate::observe() {
  if (uint32_t source = source_.load(std::memory_order_acquire); source != seen_source_) {
    seen_source_ = source;
    turn_ = single_turn_ = 0;
    holds_ = asked_ = has_late_ = false;
  }
  uint32_t word = this->word().load(std::memory_order_acquire);
  if (control::turn_of_word(word) == turn_) return word;
  if (holds_ && has_unfinished() && !std::exchange(has_late_, true)) note_late();
  turn_ = control::turn_of_word(word);
  holds_ = control::state_of_word(word) != TurnState::open;
  asked_ = false;
  return word;
}

// ---- what is unfinished ----

WorkTime TurnGate::expected(uint64_t key) const {
  if (!key) return {};
  WorkTime time = times_.expected(key);
  return time.is_known() ? time : WorkTime{kMostNs, kMostNs};
}

WorkTime TurnGate::time_in_flight() const {
  WorkTime fenced{fenced_average_.load(std::memory_order_relaxed),
                  fenced_longest_.load(std::memory_order_relaxed)};
  return unfenced_time_ + fenced;
}

bool TurnGate::has_room(const WorkRecord& record) const {
  bool is_kept = reserved_ && clock_() - reserved_at_ >= kPatienceNs;
  if (is_kept && record.position != reserved_) return false;
  uint32_t records = in_flight();
  WorkTime time = time_in_flight() + expected(record.key);
  if (!records) return true;
  return records < kMostInFlight && time.longest <= kMostNs &&
         (records == 1 || time.average <= kInFlightNs);
}

void TurnGate::add(WorkBatch& batch, uint64_t key) {
  ++batch.records;
  ++unfenced_;
  if (!batch.since) batch.since = clock_();
  batch.newest = {};
  batch.newest_key = WorkBatch::kKeys;
  if (!key) return;
  submissions_.store(submissions() + 1, std::memory_order_relaxed);
  batch.newest = expected(key);
  batch.expected += batch.newest;
  unfenced_time_ += batch.newest;
  batch.newest_key = (uint32_t)(std::find(batch.key, batch.key + batch.keys, key) - batch.key);
  if (batch.newest_key == WorkBatch::kKeys) return;
  batch.key[batch.newest_key] = key;
  batch.keys = std::max(batch.keys, batch.newest_key + 1);
  ++batch.count[batch.newest_key];
}

void TurnGate::remove_newest(WorkBatch& batch) {
  if (!batch.records) return;
  --batch.records;
  --unfenced_;
  if (batch.newest_key < WorkBatch::kKeys) --batch.count[batch.newest_key];
  batch.expected -= batch.newest;
  unfenced_time_ -= std::exchange(batch.newest, {});
  if (!batch.records) batch = {};
}

void TurnGate::discard(WorkBatch& batch) {
  unfenced_ -= batch.records;
  unfenced_time_ -= batch.expected;
  batch = {};
}

WorkBatch TurnGate::add_fence(WorkBatch& batch) {
  WorkBatch fenced = batch;
  discard(batch);
  still_since_ = std::max(still_since_, fenced.since);
  std::lock_guard lock(fenced_mutex_);
  fenced.number = ++newest_fence_;
  fences_.fetch_add(1, std::memory_order_relaxed);
  fenced_.fetch_add(fenced.records, std::memory_order_relaxed);
  fenced_average_.fetch_add(fenced.expected.average, std::memory_order_relaxed);
  fenced_longest_.fetch_add(fenced.expected.longest, std::memory_order_relaxed);
  return fenced;
}

bool TurnGate::needs_fence(const WorkBatch& batch) const {
  if (!holds_) return false;
  // NOLINTNEXTLINE(custom-unchecked-product): at most kMostInFlight, and times of as many records
  return 2 * unfenced_ >= kMostInFlight || 4 * unfenced_time_.average >= kInFlightNs ||
         batch.newest.longest >= kOwnFenceNs || batch.keys == WorkBatch::kKeys || used_single();
}

void TurnGate::complete(const WorkBatch& batch, Backlog& backlog) {
  int64_t now = clock_();
  int64_t took = now - std::max(batch.since, std::exchange(completed_at_, now));
  if (batch.records) {
    learn(batch, took);
    backlog.complete(batch.records, batch.since, now);
  }
  std::lock_guard lock(fenced_mutex_);
  completed_.fetch_add(1, std::memory_order_relaxed);
  if (batch.number <= late_fence_) late_fences_.fetch_sub(1, std::memory_order_release);
  if (batch.number > waiting_fence_) {
    fenced_.fetch_sub(batch.records, std::memory_order_relaxed);
    fenced_average_.fetch_sub(batch.expected.average, std::memory_order_relaxed);
    fenced_longest_.fetch_sub(batch.expected.longest, std::memory_order_relaxed);
  }
  fences_.fetch_sub(1, std::memory_order_release);
}

// Kinds of records of one batch share what it took in proportion to what was expected of them.
// Nothing is learnt from a batch with records of no kind, which were submitted while the gate was
// open.
void TurnGate::learn(const WorkBatch& batch, int64_t took) {
  worked_ns_ += took;
  double parts[WorkBatch::kKeys], all = 0;
  uint32_t records = 0;
  for (uint32_t i = 0; i < batch.keys; ++i) {
    parts[i] = (double)batch.count[i] * (double)expected(batch.key[i]).average;
    all += parts[i];
    records += batch.count[i];
  }
  if (records != batch.records) return;
  for (uint32_t i = 0; i < batch.keys; ++i)
    if (batch.count[i])
      times_.learn(batch.key[i], batch.count[i], (int64_t)((double)took * (parts[i] / all)),
                   worked_ns_);
}

// ---- turns ----

bool TurnGate::may_submit(const WorkRecord& record) {
  if (is_open()) return record.has_room;
  TurnState state = control::state_of_word(observe());
  if (state == TurnState::open) return record.has_room;
  if (holds_ && admits(state, record)) return true;
  blocked_.store(true, std::memory_order_relaxed);
  if (!holds_) ask();
  return false;
}

bool TurnGate::admits(TurnState state, const WorkRecord& record) {
  if (state == TurnState::single && !used_single()) {
    single_turn_ = turn_;
    return true;
  }
  if (state != TurnState::turn) return false;
  if (!has_room(record)) look_for_stall();
  if (is_behind_stall(record)) return false;
  if (!has_room(record)) {
    reserve(record.position);
    return false;
  }
  if (record.position == reserved_) reserved_ = 0;
  return true;
}

// Work that counts as stalled cannot wait for later work of its own stream. So long kernels, which
// look the same, do not get ahead of their turns.
bool TurnGate::is_behind_stall(const WorkRecord& record) const {
  return record.ended_fence < record.newest_fence && record.newest_fence <= waiting_fence_;
}

void TurnGate::reserve(uint64_t position) {
  if (!reserved_ || position < reserved_) {
    reserved_ = position;
    reserved_at_ = clock_();
  }
  is_refused_again_ |= position == reserved_;
}

void TurnGate::look_for_stall() {
  int64_t now = clock_();
  uint64_t done = completed_.load(std::memory_order_relaxed);
  if (!still_since_ || std::exchange(still_after_, done) != done) still_since_ = now;
  // NOLINTNEXTLINE(custom-unchecked-product): times of at most kMostInFlight records
  if (now - still_since_ < std::max(2 * time_in_flight().longest, kStallNs)) return;
  still_since_ = now;
  std::lock_guard lock(fenced_mutex_);
  waiting_fence_ = newest_fence_;
  fenced_ = 0;
  fenced_average_ = fenced_longest_ = 0;
}

bool TurnGate::send(control::TurnOp op, bool wants) {
  return send_(context_, {(uint32_t)op, partition_, turn_, wants});
}

void TurnGate::ask() {
  if (!asked_) asked_ = send(control::TurnOp::want, true);
}

void TurnGate::report(bool wants) {
  if (!send(control::TurnOp::drained, wants)) return;
  holds_ = false;
  asked_ = wants;
}

// The next turn has begun, and work of this one has not ended.
void TurnGate::note_late() {
  std::lock_guard lock(fenced_mutex_);
  late_turn_ = turn_;
  late_fence_ = 0;
}

// When the work has ended that was late, the arbiter must not take that of this turn for it.
void TurnGate::report_late() {
  if (!late_fence_) {
    if (unfenced_) return;
    std::lock_guard lock(fenced_mutex_);
    late_fence_ = newest_fence_;
    late_fences_ = fences_.load(std::memory_order_relaxed);
  }
  if (late_fences_.load(std::memory_order_acquire) || outside_ == Outside::runs) return;
  has_late_ = !send_(context_, {(uint32_t)control::TurnOp::drained, partition_, late_turn_, false});
}

void TurnGate::begin_outside(const std::function<void()>& wake) {
  std::unique_lock lock(outside_mutex_);
  outside_ = Outside::waits;
  wake();
  outside_changed_.wait_for(lock, kMostOutsideWait, [this] { return outside_ == Outside::runs; });
  outside_ = Outside::runs;
}

void TurnGate::end_outside() {
  std::lock_guard lock(outside_mutex_);
  outside_ = Outside::none;
}

bool TurnGate::may_run_outside(TurnState state) {
  if (outside_ != Outside::waits) return false;
  if (state == TurnState::open || (state == TurnState::turn && holds_)) return true;
  if (state != TurnState::single || !holds_ || used_single()) return false;
  single_turn_ = turn_;
  return true;
}

void TurnGate::admit_outside() {
  std::lock_guard lock(outside_mutex_);
  if (outside_ != Outside::waits) return;  // it has waited long enough meanwhile
  outside_ = Outside::runs;
  outside_changed_.notify_all();
}

bool TurnGate::is_draining() const {
  TurnState now = state();
  return holds_ && (now == TurnState::closed || now == TurnState::single);
}

void TurnGate::end_pass() {
  TurnState state = control::state_of_word(observe());
  if (may_run_outside(state)) admit_outside();
  if (state == TurnState::open) return;
  if (has_late_) report_late();
  if (state == TurnState::turn && !is_refused_again_) reserved_ = 0;
  bool suggested = end_suggested_.exchange(false, std::memory_order_relaxed);
  if (!holds_) {
    if (wants()) ask();
    return;
  }
  bool is_used = state == TurnState::closed || (state == TurnState::single && used_single());
  if (has_unfinished()) return;
  if (is_used || (state == TurnState::single && !blocked_))
    report(wants());
  else if (suggested && !blocked_)
    report(false);
}

}  // namespace busbar::server
