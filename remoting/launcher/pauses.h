// The pauses of an account between its work. A program that often has none for a moment is
// expected back. Linux' CFQ scheduler decides in the same way for disks, and waits as long
// (Documentation/block/cfq-iosched.txt, slice_idle).
//
// Thread safety: none.
#pragma once
#include <algorithm>
#include <cstdint>

namespace busbar::launcher {

class Pauses {
 public:
  using Microseconds = int64_t;
  static constexpr Microseconds kShort = 8'000;   // the GPU may wait for the end
  static constexpr Microseconds kLong = 100'000;  // the account is expected back until then
  // The return from a pause that another account uses costs the way of two notices.
  static constexpr Microseconds kReturn = 200;
  static constexpr Microseconds kNever = INT64_MAX;

  void begin(Microseconds now) {
    began_ = now;
    until_ = mean_ <= kLong ? now + kLong : kNever;
    short_until_ = mean_ <= kShort ? now + kShort : now;
  }
  void end(Microseconds now) {
    if (began_ != kNever) mean_ = (mean_ + std::min(now - began_, 2 * kLong)) / 2;
    began_ = until_ = kNever;
  }
  void expire() { until_ = kNever; }
  bool is_expected() const { return until_ != kNever; }
  // Until when the account is expected back, and how long the GPU may wait for it.
  Microseconds until() const { return until_; }
  Microseconds short_until() const { return short_until_; }
  Microseconds next(Microseconds now) const { return now < short_until_ ? short_until_ : until_; }

 private:
  Microseconds began_ = kNever, until_ = kNever, short_until_ = 0;
  Microseconds mean_ = 2 * kLong;  // of the newest pauses
};

}  // namespace busbar::launcher
