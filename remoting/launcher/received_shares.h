// The shares of one GPU's time that accounts received over the last minute.
//
// Only the time in which the GPU was given in turns counts. An account that has the GPU for itself
// needs no turns and pays nothing, so what it used is unknown.
//
// Thread safety: none.
#pragma once
#include <cstdint>
#include <deque>
#include <map>

#include "launcher/arbiter.h"

namespace busbar::launcher {

class ReceivedShares {
 public:
  static constexpr Microseconds kStep = 1'000'000;  // between two samples, and the least in turns
  static constexpr Microseconds kPeriod = 60 * kStep;

  // Says whether the GPU is given in turns from now on.
  void set_in_turns(bool in_turns, Microseconds now);
  // Begins with an account, unless it is known. `charged` is what it has paid in all.
  void add(const Arbiter::Id& id, Microseconds charged, Microseconds now);
  void remove(const Arbiter::Id& id) { samples_.erase(id); }
  // Returns the share in hundredths of a percent, or control::kUnknownShare, also while the GPU is
  // not given in turns. What it paid between two calls that are more than kPeriod apart is unknown.
  uint32_t share(const Arbiter::Id& id, Microseconds charged, Microseconds now);

 private:
  struct Sample {
    Microseconds at, in_turns, charged;  // the last two: since the beginning
  };
  Sample sample(Microseconds charged, Microseconds now) const;

  std::map<Arbiter::Id, std::deque<Sample>> samples_;  // the oldest first
  bool in_turns_ = false;
  Microseconds changed_at_ = 0, in_turns_before_ = 0;  // before that change
};

}  // namespace busbar::launcher
