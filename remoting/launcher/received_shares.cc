#include "launcher/received_shares.h"

#include <algorithm>

namespace busbar::launcher {

ReceivedShares::Sample ReceivedShares::sample(Microseconds charged, Microseconds now) const {
  return {now, in_turns_before_ + (in_turns_ ? now - changed_at_ : 0), charged};
}

void ReceivedShares::set_in_turns(bool in_turns, Microseconds now) {
  in_turns_before_ = sample(0, now).in_turns;
  changed_at_ = now;
  in_turns_ = in_turns;
}

void ReceivedShares::add(const Arbiter::Id& id, Microseconds charged, Microseconds now) {
  samples_.try_emplace(id, 1, sample(charged, now));
}

uint32_t ReceivedShares::share(const Arbiter::Id& id, Microseconds charged, Microseconds now) {
  auto it = samples_.find(id);
  if (it == samples_.end()) return control::kUnknownShare;
  auto& samples = it->second;
  while (!samples.empty() && samples.front().at < now - kPeriod) samples.pop_front();
  Sample newest = sample(charged, now);
  if (samples.empty() || now - samples.back().at >= kStep) samples.push_back(newest);
  Microseconds in_turns = newest.in_turns - samples.front().in_turns;
  if (!in_turns_ || in_turns < kStep) return control::kUnknownShare;
  // NOLINTNEXTLINE(custom-unchecked-product): the time of a minute
  Microseconds share = (charged - samples.front().charged) * 10'000 / in_turns;
  return (uint32_t)std::min<Microseconds>(share, 10'000);
}

}  // namespace busbar::launcher
