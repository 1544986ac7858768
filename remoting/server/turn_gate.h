// Decides whether work may be submitted to one GPU now: the launcher gives turns (ADR 83). Counts
// the submitted work that has not ended.
//
// Thread safety: executor thread only, except the atomics.
#pragma once
#include <atomic>
#include <cstdint>

#include "control/turn_messages.h"

namespace busbar::server {

class TurnGate {
 public:
  // Sends a notice to the arbiter. False when it cannot be sent now.
  using Send = bool (*)(void* context, const control::TurnNotice& notice);
  TurnGate(uint32_t partition, Send send, void* context)
      : partition_(partition), send_(send), context_(context) {}

  // True if a record with work may be submitted. Otherwise it waits: for a turn, for which this
  // asks the arbiter, or for earlier work to end.
  bool may_submit() {
    uint32_t word = word_.load(std::memory_order_relaxed)->load(std::memory_order_acquire);
    return control::state_of_word(word) == control::TurnState::open || may_submit_in_turn(word);
  }
  // Work of one record is submitted, or was not after all.
  void add_unfenced() { ++unfenced_; }
  void remove_unfenced(uint32_t records) { unfenced_ -= records; }
  // A fence behind so many records, of which there may be none, is submitted.
  void add_fence(uint32_t records) {
    unfenced_ -= records;
    fenced_.fetch_add(records, std::memory_order_relaxed);
    fences_.fetch_add(1, std::memory_order_relaxed);
  }
  // Half of what may be unfinished has no fence: with one, the GPU goes on while the next half is
  // submitted.
  // NOLINTNEXTLINE(custom-unchecked-product): at most kMostInFlight and the records of a pass
  bool needs_fence() const { return holds_ && (2 * unfenced_ >= limit_ || used_single()); }

  // Called before parked records are tried again.
  void begin_pass() { blocked_ = false; }
  // Called after that: reports a turn whose work has ended, and asks for one.
  void end_pass();
  bool is_draining() const;  // the turn is over, and work may still run

  // ---- any thread ----
  // A fence behind so many records has completed.
  void complete(uint32_t records) {
    completed_.fetch_add(records, std::memory_order_relaxed);
    fenced_.fetch_sub(records, std::memory_order_relaxed);
    fences_.fetch_sub(1, std::memory_order_release);
  }
  // Replaces the source of turns: `word` is valid for ever. A new source knows nothing of this
  // gate.
  void use(const std::atomic<uint32_t>* word);
  const std::atomic<uint32_t>& word() const { return *word_.load(std::memory_order_relaxed); }
  bool has_turn() const {
    return control::state_of_word(word().load()) == control::TurnState::turn;
  }
  uint32_t submissions() const { return submissions_.load(std::memory_order_relaxed); }
  bool has_fenced() const { return fences_.load(std::memory_order_relaxed); }
  // Nothing has happened for a while: the turn ends unless there is work.
  void suggest_end() { end_suggested_.store(true, std::memory_order_relaxed); }

  static const std::atomic<uint32_t> kOpen, kClosed;  // sources without a launcher

 private:
  bool may_submit_in_turn(uint32_t word);
  bool used_single() const { return single_turn_ == turn_; }
  void observe(uint32_t word);
  void measure();
  void ask();
  void report(bool wants);
  uint32_t in_flight() const { return unfenced_ + fenced_.load(std::memory_order_relaxed); }
  bool has_unfinished() const { return unfenced_ || fences_.load(std::memory_order_acquire); }

  const uint32_t partition_;
  const Send send_;
  void* const context_;
  uint32_t turn_ = 0;         // the newest turn that was seen
  uint32_t single_turn_ = 0;  // the newest turn whose single record was submitted
  bool holds_ = false;        // it has not been reported as drained
  bool asked_ = false;        // for the next one
  bool blocked_ = false;      // a record waits for a turn or for earlier work
  uint32_t unfenced_ = 0;
  uint32_t limit_ = 4;  // records in flight during a turn
  uint32_t seen_source_ = 0;
  uint64_t measured_completed_ = 0;
  int64_t measured_at_ = 0, unit_ns_ = 0;  // unit: time of one record; 0: unknown
  std::atomic<const std::atomic<uint32_t>*> word_{&kOpen};
  std::atomic<uint32_t> source_{0};              // counts the calls of use()
  std::atomic<uint32_t> fenced_{0}, fences_{0};  // records with a fence, and fences
  std::atomic<uint32_t> submissions_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> end_suggested_{false};
};

}  // namespace busbar::server
