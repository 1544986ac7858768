#include "server/turn_gate.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace busbar::server {

using control::TurnState;

namespace {
// Unfinished work of a turn: it runs on when the turn has ended, and is paid for with later turns.
constexpr int64_t kInFlightNs = 4'000'000;
constexpr uint32_t kMostInFlight = 256;
// Two records are in flight, so that the GPU goes on with the second one, unless they need longer
// than this. A record of which nothing is known counts as that long: it is measured alone. In
// programs that submit waits it counts less, because it may end after a long time only.
constexpr int64_t kAloneNs = 50'000'000;
// Longer records get a fence each. The completion of a fence takes some ten microseconds.
constexpr int64_t kOwnFenceNs = 500'000;
// When no work has ended for so long, and for twice as long as was expected, it may wait for other
// work. The first time is of programs that submit waits.
constexpr int64_t kStallOfWaitsNs = 2'000'000, kStallNs = 20'000'000;
// A record that finds no room for so long is the next one: others would take its place for ever.
constexpr int64_t kPatienceNs = 10'000'000;
constexpr double kMostOverlap = 16;
constexpr double kOverlapFade = 7.0 / 8;  // weight of the earlier fences at each one
}  // namespace

constinit const std::atomic<uint32_t> TurnGate::kOpen{control::turn_word(0, TurnState::open)};
constinit const std::atomic<uint32_t> TurnGate::kClosed{control::turn_word(0, TurnState::closed)};

int64_t TurnGate::monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

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
    holds_ = asked_ = false;
  }
  uint32_t word = this->word().load(std::memory_order_acquire);
  if (control::turn_of_word(word) == turn_) return word;
  turn_ = control::turn_of_word(word);
  holds_ = control::state_of_word(word) != TurnState::open;
  asked_ = false;
  return word;
}

// ---- what is unfinished ----

int64_t TurnGate::expected(uint64_t key) const {
  if (!key) return 0;
  uint32_t ns = times_.expected(key);
  if (ns != WorkTimes::kUnknown) return ns;
  return work_waits_.load(std::memory_order_relaxed) ? kInFlightNs : kAloneNs;
}

int64_t TurnGate::bound() const {
  return (int64_t)((double)kInFlightNs * overlap_.load(std::memory_order_relaxed));
}

bool TurnGate::has_room(uint64_t key) const {
  bool is_next = reserved_key_ && clock_() - reserved_at_ >= kPatienceNs;
  if (is_next && key != reserved_key_) return false;
  uint32_t records = in_flight();
  int64_t ns = in_flight_ns() + expected(key);
  return !records || (records == 1 && ns < kAloneNs) || (records < kMostInFlight && ns <= bound());
}

void TurnGate::add(WorkBatch& batch, uint64_t key) {
  ++batch.records;
  ++unfenced_;
  if (!batch.since) batch.since = clock_();
  batch.newest_ns = 0;
  if (!key) return;
  submissions_.store(submissions() + 1, std::memory_order_relaxed);
  batch.newest_ns = expected(key);
  batch.expected_ns += batch.newest_ns;
  unfenced_ns_ += batch.newest_ns;
  auto* end = batch.key + std::min(batch.keys, WorkBatch::kKeys);
  if (batch.keys > WorkBatch::kKeys || std::find(batch.key, end, key) != end) return;
  if (batch.keys++ < WorkBatch::kKeys) *end = key;
}

void TurnGate::remove_newest(WorkBatch& batch) {
  if (!batch.records) return;
  --batch.records;
  --unfenced_;
  submissions_.store(submissions() - 1, std::memory_order_relaxed);
  batch.expected_ns -= batch.newest_ns;
  unfenced_ns_ -= std::exchange(batch.newest_ns, 0);
  if (!batch.records) batch = {};
}

void TurnGate::discard(WorkBatch& batch) {
  unfenced_ -= batch.records;
  unfenced_ns_ -= batch.expected_ns;
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
  fenced_ns_.fetch_add(fenced.expected_ns, std::memory_order_relaxed);
  return fenced;
}

bool TurnGate::needs_fence() const {
  if (!holds_) return false;
  // NOLINTNEXTLINE(custom-unchecked-product): at most kMostInFlight, and times of as many records
  return 2 * unfenced_ >= kMostInFlight || 2 * unfenced_ns_ >= bound() ||
         unfenced_ns_ >= kOwnFenceNs || used_single();
}

void TurnGate::complete(const WorkBatch& batch) {
  int64_t now = clock_();
  int64_t took = now - std::max(batch.since, std::exchange(completed_at_, now));
  if (batch.records) learn(batch, took);
  std::lock_guard lock(fenced_mutex_);
  completed_.fetch_add(1, std::memory_order_relaxed);
  if (batch.number > waiting_fence_) {
    fenced_.fetch_sub(batch.records, std::memory_order_relaxed);
    fenced_ns_.fetch_sub(batch.expected_ns, std::memory_order_relaxed);
  }
  fences_.fetch_sub(1, std::memory_order_release);
}

// A batch of several kinds that took long does not say which of them did, so each one is measured
// alone again.
void TurnGate::learn(const WorkBatch& batch, int64_t took) {
  worked_ns_ += took;
  learn_overlap(batch, took);
  // NOLINTNEXTLINE(custom-unchecked-product): times of at most kMostInFlight records
  bool is_late = took > 2 * batch.expected_ns + kInFlightNs;
  if (batch.keys == 1) return learn_one(batch.key[0], took / batch.records);
  if (batch.keys > WorkBatch::kKeys && is_late) times_.forget_all();
  if (batch.keys > WorkBatch::kKeys || !is_late) return;
  for (uint32_t i = 0; i < batch.keys; ++i) times_.forget(batch.key[i]);
}

// Work that may wait for other work teaches little: a wait is no work.
void TurnGate::learn_one(uint64_t key, int64_t took) {
  int64_t most = std::max(2 * expected(key), kStallOfWaitsNs);
  bool may_wait = work_waits_.load(std::memory_order_relaxed);
  times_.learn(key, may_wait ? std::min(took, most) : took, worked_ns_);
}

void TurnGate::learn_overlap(const WorkBatch& batch, int64_t took) {
  if (batch.expected_ns >= kAloneNs) return;
  expected_lately_ = kOverlapFade * expected_lately_ + (double)batch.expected_ns;
  took_lately_ = kOverlapFade * took_lately_ + (double)std::max<int64_t>(took, 1);
  overlap_.store(std::clamp(expected_lately_ / took_lately_, 1.0, kMostOverlap),
                 std::memory_order_relaxed);
}

// ---- turns ----

bool TurnGate::may_submit(uint64_t key) {
  if (is_open()) return true;
  TurnState state = control::state_of_word(observe());
  if (state == TurnState::open || (holds_ && admits(state, key))) return true;
  blocked_.store(true, std::memory_order_relaxed);
  if (!holds_) ask();
  return false;
}

bool TurnGate::admits(TurnState state, uint64_t key) {
  if (state == TurnState::single && !used_single()) {
    single_turn_ = turn_;
    return true;
  }
  if (state != TurnState::turn) return false;
  if (!has_room(key)) look_for_stall();
  if (!has_room(key)) {
    reserve(key);
    return false;
  }
  if (key == reserved_key_) reserved_key_ = 0;
  return true;
}

void TurnGate::reserve(uint64_t key) {
  is_refused_again_ |= key == reserved_key_;
  if (reserved_key_) return;
  reserved_key_ = key;
  reserved_at_ = clock_();
  is_refused_again_ = true;
}

void TurnGate::look_for_stall() {
  int64_t now = clock_();
  uint64_t done = completed_.load(std::memory_order_relaxed);
  if (!still_since_ || std::exchange(still_after_, done) != done) still_since_ = now;
  int64_t least = work_waits_.load(std::memory_order_relaxed) ? kStallOfWaitsNs : kStallNs;
  if (now - still_since_ < std::max(2 * in_flight_ns(), least)) return;
  still_since_ = now;
  std::lock_guard lock(fenced_mutex_);
  waiting_fence_ = newest_fence_;
  fenced_ = 0;
  fenced_ns_ = 0;
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

bool TurnGate::is_draining() const {
  TurnState now = state();
  return holds_ && (now == TurnState::closed || now == TurnState::single);
}

void TurnGate::end_pass() {
  TurnState state = control::state_of_word(observe());
  if (state == TurnState::open) return;
  if (!is_refused_again_) reserved_key_ = 0;
  bool suggested = end_suggested_.exchange(false, std::memory_order_relaxed);
  if (!holds_) {
    if (blocked_) ask();
    return;
  }
  bool is_used = state == TurnState::closed || (state == TurnState::single && used_single());
  if (has_unfinished()) return;
  if (is_used || (state == TurnState::single && !blocked_))
    report(blocked_);
  else if (suggested && !blocked_)
    report(false);
}

}  // namespace busbar::server
