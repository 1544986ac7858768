#include "launcher/arbiter.h"

#include <algorithm>
#include <utility>

namespace busbar::launcher {

using control::ComputeMode;

bool Arbiter::is_capped(const Account& a) {
  return a.share.mode == ComputeMode::capped && a.share.percent < 100;
}

bool Arbiter::has_reserve(const Account& a) {
  return is_capped(a) || a.share.mode == ComputeMode::guaranteed;
}

bool Arbiter::may_use_reserve(const Account& a) const {
  return has_reserve(a) && a.reserve >= threshold(a);
}

bool Arbiter::may_use_balance(const Account& a) const {
  return !is_capped(a) && a.balance > 0;
}

Microseconds Arbiter::turn_length(const Account& a) const {
  Microseconds credit = may_use_reserve(a) ? a.reserve : a.balance;
  return std::clamp<Microseconds>(credit, 1, kTurn);
}

// The holder counts as if it wanted to go on.
bool Arbiter::needs(const Accounts::value_type& entry) const {
  return entry.second.wants || entry.first == holder_;
}

bool Arbiter::is_open() const {
  return accounts_.size() == 1 && !is_capped(accounts_.begin()->second);
}

// Credit by the clock. An account without work keeps that of one turn, others that of a round.
void Arbiter::accrue(Microseconds now) {
  for (auto& entry : accounts_) {
    Account& a = entry.second;
    Microseconds most = needs(entry) ? quantum(a) + kTurn : threshold(a);
    // Fractions of a microsecond wait for the next call.
    // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
    Microseconds credit = (now - a.reserved_at) * a.share.percent / 100;
    if (credit <= 0) continue;
    // NOLINTNEXTLINE(custom-unchecked-product): credit of at most that time
    a.reserved_at += credit * 100 / a.share.percent;
    a.reserve = std::min(a.reserve + credit, std::max(most, a.reserve));
  }
}

void Arbiter::charge(Microseconds now) {
  auto it = accounts_.find(holder_);
  if (it == accounts_.end()) return;
  Account& a = it->second;
  Microseconds used = now - charged_until_;
  charged_until_ = now;
  a.charged += used;
  a.reserve -= used;
  // A guaranteed account that is served first owes the others no more than one round.
  a.balance -= used;
  if (a.share.mode == ComputeMode::guaranteed) a.balance = std::max(a.balance, -kRound);
  if (carry_ == Carry::yes) return;
  a.balance = std::max<Microseconds>(a.balance, 0);
  a.reserve = std::max<Microseconds>(a.reserve, 0);
}

void Arbiter::end_turn(Microseconds now) {
  charge(now);
  holder_.clear();
  ends_at_ = revoked_at_ = kNever;
}

void Arbiter::grant(const Id& id, Microseconds now) {
  holder_ = last_ = id;
  turn_ = (turn_ + 1) % control::kTurnNumbers;
  charged_until_ = now;
  ends_at_ = now + turn_length(accounts_.at(id));
  revoked_at_ = kNever;
}

// Returns the next account in turn that needs the GPU and is eligible, or end().
Arbiter::Accounts::iterator Arbiter::after_last(bool (Arbiter::*eligible)(const Account&) const) {
  auto it = accounts_.upper_bound(last_);
  for (size_t i = 0; i < accounts_.size(); ++i, ++it) {
    if (it == accounts_.end()) it = accounts_.begin();
    if (needs(*it) && (this->*eligible)(it->second)) return it;
  }
  return accounts_.end();
}

// Gives everybody the credit of as many rounds as the first of them needs for a turn. False if
// no account takes part.
bool Arbiter::begin_round() {
  Microseconds rounds = kNever;
  for (auto& entry : accounts_)
    if (needs(entry) && !is_capped(entry.second))
      rounds = std::min(rounds, -entry.second.balance / quantum(entry.second) + 1);
  if (rounds == kNever) return false;
  for (auto& entry : accounts_) {
    Account& a = entry.second;
    if (is_capped(a)) continue;
    // NOLINTNEXTLINE(custom-unchecked-product): as many rounds as a debt of turns needs
    a.balance += rounds * quantum(a);
    if (!needs(entry)) a.balance = std::min<Microseconds>(a.balance, 0);
  }
  return true;
}

Arbiter::Accounts::iterator Arbiter::pick() {
  if (auto it = after_last(&Arbiter::may_use_reserve); it != accounts_.end()) return it;
  if (auto it = after_last(&Arbiter::may_use_balance); it != accounts_.end()) return it;
  return begin_round() ? after_last(&Arbiter::may_use_balance) : accounts_.end();
}

// At the end of a turn the holder goes on if it is the next one anyway; otherwise it must drain.
void Arbiter::end_expired(Microseconds now) {
  if (is_revoked()) {
    if (now < revoked_at_ + kDrain) return;
    overdue_ = holder_;
    accounts_.at(holder_).wants = true;
    return end_turn(now);
  }
  if (now < ends_at_) return;
  charge(now);
  auto next = pick();
  if (next == accounts_.end() || next->first != holder_) {
    revoked_at_ = now;
    return;
  }
  last_ = holder_;
  ends_at_ = now + turn_length(next->second);
}

void Arbiter::advance(Microseconds now) {
  if (is_open()) return;
  accrue(now);
  if (!holder_.empty()) end_expired(now);
  if (!holder_.empty()) return;
  if (auto next = pick(); next != accounts_.end()) {
    next->second.wants = false;
    grant(next->first, now);
  }
}

Microseconds Arbiter::next_deadline(Microseconds now) const {
  if (is_open()) return kNever;
  if (!holder_.empty()) return is_revoked() ? revoked_at_ + kDrain : ends_at_;
  Microseconds first = kNever;
  for (auto& [id, a] : accounts_)
    if (a.wants && has_reserve(a)) {
      Microseconds lack = std::max<Microseconds>(threshold(a) - a.reserve, 0);
      // NOLINTNEXTLINE(custom-unchecked-product): at most a turn and a debt of turns
      first = std::min(first, std::max(now, a.reserved_at + lack * 100 / a.share.percent + 1));
    }
  return first;
}

// Two accounts need turns: the work of the first one counts as the first turn.
void Arbiter::set_share(const Id& id, const Share& share, Microseconds now) {
  bool was_open = is_open();
  Id first = was_open ? accounts_.begin()->first : Id();
  auto [it, added] = accounts_.try_emplace(id);
  it->second.share = share;
  it->second.share.percent = std::clamp<uint32_t>(share.percent, 1, 100);
  if (added) it->second.reserved_at = now;
  if (was_open == is_open()) return advance(now);
  end_turn(now);
  if (!was_open) return;
  for (auto& entry : accounts_) entry.second.reserved_at = now;
  grant(first, now);
}

void Arbiter::remove(const Id& id, Microseconds now) {
  if (holder_ == id) end_turn(now);
  accounts_.erase(id);
  if (is_open()) end_turn(now);
  advance(now);
}

void Arbiter::want(const Id& id, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end()) return;
  if (id != holder_ || is_revoked()) {
    accrue(now);
    it->second.wants = true;
  }
  advance(now);
}

void Arbiter::drained(const Id& id, bool wants, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end()) return;
  accrue(now);
  if (id == holder_) {
    end_turn(now);
    it->second.balance = wants ? it->second.balance : std::min<Microseconds>(it->second.balance, 0);
  }
  it->second.wants = wants;
  advance(now);
}

Arbiter::Id Arbiter::take_overdue() {
  return std::exchange(overdue_, {});
}

Microseconds Arbiter::charged(const Id& id) const {
  auto it = accounts_.find(id);
  return it == accounts_.end() ? 0 : it->second.charged;
}

}  // namespace busbar::launcher
