#include "server/turn_gate.h"

#include <time.h>

#include <algorithm>

namespace busbar::server {

using control::TurnState;

namespace {
// Unfinished work of a turn: it runs on when the turn has ended, and is paid for with later turns.
constexpr int64_t kInFlightNs = 4'000'000;
constexpr int64_t kLongUnitNs = 10'000'000;  // longer records are submitted one at a time
constexpr int64_t kMostInFlight = 256;

int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

constinit const std::atomic<uint32_t> TurnGate::kOpen{control::turn_word(0, TurnState::open)};
constinit const std::atomic<uint32_t> TurnGate::kClosed{control::turn_word(0, TurnState::closed)};

void TurnGate::use(const std::atomic<uint32_t>* word) {
  word_.store(word, std::memory_order_relaxed);
  source_.fetch_add(1, std::memory_order_release);
}

// Notices a new turn, also one that has ended meanwhile: it must be reported, too.
void TurnGate::observe(uint32_t word) {
  if (uint32_t source = source_.load(std::memory_order_acquire); source != seen_source_) {
    seen_source_ = source;
    turn_ = single_turn_ = 0;
    holds_ = asked_ = false;
  }
  if (control::turn_of_word(word) == turn_) return;
  turn_ = control::turn_of_word(word);
  holds_ = control::state_of_word(word) != TurnState::open;
  asked_ = false;
  measured_at_ = monotonic_ns();
  measured_completed_ = completed_;
}

bool TurnGate::may_submit_in_turn(uint32_t word) {
  observe(word);
  TurnState state = control::state_of_word(word);
  bool single = state == TurnState::single && !used_single();
  if (holds_ && (single || (state == TurnState::turn && in_flight() < limit_))) {
    if (single) single_turn_ = turn_;
    submissions_.store(submissions() + 1, std::memory_order_relaxed);
    return true;
  }
  blocked_ = true;
  if (!holds_) ask();
  return false;
}

void TurnGate::ask() {
  if (!asked_) asked_ = send_(context_, {(uint32_t)control::TurnOp::want, partition_, turn_, 1});
}

void TurnGate::report(bool wants) {
  if (!send_(context_, {(uint32_t)control::TurnOp::drained, partition_, turn_, wants})) return;
  holds_ = false;
  asked_ = wants;
}

// Learns how long a record takes, and so how many may be unfinished.
void TurnGate::measure() {
  uint64_t completed = completed_;
  if (completed != measured_completed_) {
    int64_t now = monotonic_ns();
    if (measured_at_) {
      int64_t unit = (now - measured_at_) / (int64_t)(completed - measured_completed_);
      // NOLINTNEXTLINE(custom-unchecked-product): times between completions
      unit_ns_ = unit_ns_ ? (3 * unit_ns_ + unit) / 4 : unit;
      int64_t least = unit_ns_ < kLongUnitNs ? 2 : 1;
      limit_ =
          (uint32_t)std::clamp(kInFlightNs / std::max<int64_t>(unit_ns_, 1), least, kMostInFlight);
    }
    measured_at_ = now;
    measured_completed_ = completed;
  }
  if (!has_unfinished()) measured_at_ = 0;
}

bool TurnGate::is_draining() const {
  TurnState state = control::state_of_word(word().load());
  return holds_ && (state == TurnState::closed || state == TurnState::single);
}

void TurnGate::end_pass() {
  uint32_t word = word_.load(std::memory_order_relaxed)->load(std::memory_order_acquire);
  TurnState state = control::state_of_word(word);
  observe(word);
  if (state == TurnState::open) return;
  bool suggested = end_suggested_.exchange(false, std::memory_order_relaxed);
  if (!holds_) {
    if (blocked_) ask();
    return;
  }
  measure();
  if (has_unfinished()) return;
  bool over =
      state == TurnState::closed || (state == TurnState::single && (used_single() || !blocked_));
  if (over)
    report(blocked_);
  else if (suggested && !blocked_)
    report(false);
}

}  // namespace busbar::server
