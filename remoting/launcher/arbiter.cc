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

bool Arbiter::others_need(const Id& id) const {
  return std::ranges::any_of(accounts_,
                             [&](auto& entry) { return entry.first != id && needs(entry); });
}

bool Arbiter::takes_part(const Accounts::value_type& entry) const {
  return needs(entry) || entry.second.pauses.is_expected();
}

bool Arbiter::is_chosen_here(const Accounts::value_type& entry) const {
  return !entry.second.joint || entry.first == holder_;
}

// Returns the account that is present if there is only one, or end().
Arbiter::Accounts::const_iterator Arbiter::only_present() const {
  auto is_present = [](auto& entry) {
    return entry.second.present;
  };
  auto first = std::ranges::find_if(accounts_, is_present);
  bool has_other = first != accounts_.end() &&
                   std::find_if(std::next(first), accounts_.end(), is_present) != accounts_.end();
  return has_other ? accounts_.end() : first;
}

void Arbiter::look_for_open() {
  auto only = only_present();
  is_open_ = only != accounts_.end() && !is_capped(only->second);
}

void Arbiter::look_for_reserves() {
  has_reserves_ = std::ranges::any_of(accounts_, [](auto& a) { return has_reserve(a.second); });
}

// Credit by the clock. An account without work keeps that of one turn, others that of a round, and
// one that has the GPU for itself gets none. Fractions of a microsecond wait for the next call:
// sessions choose how often this is called.
void Arbiter::accrue(Microseconds now) {
  if (!has_reserves_) return;
  for (auto& entry : accounts_) {
    Account& a = entry.second;
    if (!has_reserve(a)) continue;
    Microseconds most = needs(entry) ? quantum(a) + kTurn : threshold(a);
    Microseconds passed = std::max<Microseconds>(now - std::exchange(a.reserved_at, now), 0);
    if (is_open() && a.present) continue;
    a.fraction += passed * a.share.percent;  // NOLINT(custom-unchecked-product): of an uptime
    a.reserve = std::min(a.reserve + a.fraction / 100, std::max(most, a.reserve));
    a.fraction %= 100;
  }
}

// A guaranteed account that is served first owes the others no more than one round for what its
// credit by the clock covers. The rest is a debt like that of any account.
void Arbiter::charge(Account& a, Microseconds used) {
  bool is_served_first = a.share.mode == ComputeMode::guaranteed;
  Microseconds covered = is_served_first ? std::clamp<Microseconds>(a.reserve, 0, used) : 0;
  if (!is_capped(a))
    a.balance = std::max(a.balance - covered, std::min(a.balance, -kRound)) - (used - covered);
  if (has_reserve(a)) a.reserve -= used;
  a.charged += used;
}

void Arbiter::charge(Microseconds now) {
  auto it = accounts_.find(holder_);
  if (it == accounts_.end()) return;
  Account& a = it->second;
  Microseconds used = std::max<Microseconds>(now - charged_until_, 0);
  charged_until_ += used;
  if (is_free_)
    a.charged += used;
  else
    charge(a, used);
  if (carry_ == Carry::yes) return;
  a.balance = std::max<Microseconds>(a.balance, 0);
  a.reserve = std::max<Microseconds>(a.reserve, 0);
}

// The driver slices the time between a late turn and the turn of the holder, so both pay all of it.
void Arbiter::charge_late(Microseconds now) {
  if (!std::exchange(has_late_, false)) return;
  for (auto& [id, a] : accounts_) {
    has_late_ |= is_late(a);
    if (a.late_until == kNever) continue;
    charge(a, now - std::exchange(a.late_until, now));
    if (id == holder_) a.late_until = kNever;  // it pays as the holder
  }
}

// Called before it changes who has or wants a turn, and at least every kDrain while any does. A
// launcher that was stopped has not seen how the work ended meanwhile.
void Arbiter::note_late(Microseconds now) {
  Microseconds passed = std::min(now - std::exchange(noted_at_, now), kDrain);
  if (!has_late_) return;
  auto first =
      std::ranges::min_element(accounts_, {}, [](auto& entry) { return entry.second.late_since; });
  if (first != accounts_.end() && is_late(first->second) && others_need(first->first))
    first->second.late += passed;
}

void Arbiter::end_turn(Microseconds now) {
  charge(now);
  holder_ = {};
  is_free_ = false;
  ends_at_ = revoked_at_ = kNever;
}

void Arbiter::set_end(const Account& a, Microseconds now) {
  is_free_ = has_paid_pause() && !is_late(a) && !a.joint && !may_use_credit(a);
  ends_at_ = now + (is_late(a) || is_free_ ? kTurn : turn_length(a));
}

void Arbiter::grant(Accounts::value_type& next, Microseconds now) {
  auto& [id, a] = next;
  holder_ = last_ = id;
  turn_ = (turn_ + 1) % control::kTurnNumbers;
  charged_until_ = now;
  a.late_turn_at = now;
  charge_late(now);
  set_end(a, now);
  if (a.joint) ends_at_ = kNever;
  revoked_at_ = kNever;
  if (called_ == id) called_ = {};
}

// Returns the next account in turn that needs the GPU and is eligible, or end().
Arbiter::Accounts::iterator Arbiter::after_last(bool (Arbiter::*eligible)(const Account&) const) {
  auto it = accounts_.upper_bound(last_);
  for (size_t i = 0; i < accounts_.size(); ++i, ++it) {
    if (it == accounts_.end()) it = accounts_.begin();
    if (needs(*it) && is_chosen_here(*it) && (this->*eligible)(it->second)) return it;
  }
  return accounts_.end();
}

// Returns the account that has the largest part of its credit left, or end(). So the turns of each
// are spread over the round: one that needs the GPU for less than a round waits for its part of the
// others' turns only, whatever their number is.
Arbiter::Accounts::iterator Arbiter::most_credit() {
  auto best = accounts_.end();
  auto next = std::ranges::upper_bound(in_order_, last_, {}, [](auto it) { return it->first; });
  for (size_t i = 0; i < in_order_.size(); ++i, ++next) {
    if (next == in_order_.end()) next = in_order_.begin();
    auto it = *next;
    if (!needs(*it) || !is_chosen_here(*it) || !may_use_balance(it->second)) continue;
    if (best == accounts_.end() || has_more_credit(it->second, best->second)) best = it;
  }
  return best;
}

// Returns kNever if no such account needs the GPU.
Microseconds Arbiter::rounds_to_next_turn(bool chosen_here) const {
  Microseconds rounds = kNever;
  for (auto& entry : accounts_)
    if (takes_part(entry) && is_chosen_here(entry) == chosen_here && !is_capped(entry.second) &&
        entry.second.balance <= 0)
      rounds = std::min(rounds, -entry.second.balance / quantum(entry.second) + 1);
  return rounds;
}

// Returns the rounds in which those who take part have turns of kLeastTurn on average.
Microseconds Arbiter::rounds_of_least_turns() const {
  Microseconds needed = 0, credit = 0;
  for (auto& entry : accounts_) {
    if (!takes_part(entry) || is_capped(entry.second)) continue;
    needed += kLeastTurn;
    credit += quantum(entry.second);
  }
  return (needed + credit - 1) / credit;
}

// Gives everybody the credit of as many rounds as the first of them needs for a turn, or as their
// turns need for their least length. False if no account takes part. A joint account that waits for
// other GPUs keeps the others from nothing.
bool Arbiter::begin_round() {
  Microseconds rounds = rounds_to_next_turn(true);
  if (rounds == kNever) rounds = rounds_to_next_turn(false);
  if (rounds == kNever) return false;
  rounds_at_once_ = rounds_of_least_turns();
  rounds = std::max(rounds, rounds_at_once_);
  for (auto& entry : accounts_) {
    Account& a = entry.second;
    if (is_capped(a)) continue;
    // NOLINTNEXTLINE(custom-unchecked-product): as many rounds as a debt of turns needs
    a.balance += rounds * quantum(a);
    if (!takes_part(entry)) a.balance = std::min<Microseconds>(a.balance, 0);
    if (a.joint || a.pauses.is_expected()) a.balance = std::min(a.balance, most_balance(a));
  }
  return true;
}

// Joint accounts are chosen elsewhere.
Arbiter::Accounts::iterator Arbiter::late_for_long(Microseconds now) {
  if (!has_late_) return accounts_.end();
  return std::ranges::find_if(accounts_, [&](auto& entry) {
    return !entry.second.joint && is_late_for_long(entry.second, now);
  });
}

Arbiter::Accounts::iterator Arbiter::pick(Microseconds now) {
  if (called_) return accounts_.find(called_);
  if (auto it = late_for_long(now); it != accounts_.end()) return it;
  if (has_reserves_)
    if (auto it = after_last(&Arbiter::may_use_reserve); it != accounts_.end()) return it;
  if (auto it = most_credit(); it != accounts_.end()) return it;
  if (!has_paid_pause() && begin_round())
    if (auto it = most_credit(); it != accounts_.end()) return it;
  return has_paid_pause() ? pick_in_pause(now) : accounts_.end();
}

void Arbiter::end_late(Microseconds now) {
  overdue_ = holder_;
  Account& a = accounts_.at(holder_);
  a.wants = true;
  end_turn(now);
  a.late_until = a.late_turn_at = now;
  a.late_since = std::min(a.late_since, now);
  has_late_ = true;
}

// At the end of a turn the holder goes on if it is the next one anyway; otherwise it must drain.
void Arbiter::end_expired(Microseconds now) {
  if (is_revoked()) {
    if (now >= revoked_at_ + kDrain) end_late(now);
    return;
  }
  if (now < ends_at_) return;
  charge(now);
  // Any other account with credit comes before a holder without. That needs no search for the most.
  bool has_credit = may_use_credit(accounts_.at(holder_));
  auto next = called_ || has_credit ? accounts_.end() : after_last(&Arbiter::may_use_balance);
  if (next == accounts_.end()) next = pick(now);
  if (next == accounts_.end() || next->first != holder_) {
    return is_holder_late() ? end_late(now) : revoke(now);
  }
  last_ = holder_;
  set_end(next->second, now);
}

void Arbiter::advance(Microseconds now) {
  if (is_open()) return;
  note_late(now);
  accrue(now);
  charge_late(now);
  pay_for_pauses(now);
  if (holder_) end_expired(now);
  if (auto next = !holder_ ? pick(now) : accounts_.end(); next != accounts_.end()) {
    next->second.wants = false;
    grant(*next, now);
  }
  begin_to_pay(now);
}

Microseconds Arbiter::next_deadline(Microseconds now) const {
  if (is_open()) return kNever;
  if (holder_) return is_revoked() ? revoked_at_ + kDrain : ends_at_;
  Microseconds first = kNever;
  // A joint account with credit still waits for its other GPUs, so no time is known for it.
  for (auto& [id, a] : accounts_) {
    if (a.wants && a.late_until != kNever && !(a.joint && is_late_for_long(a, now)))
      first = std::min(first, std::max(now + 1, a.late_turn_at + kLateTurns));
    if (a.pauses.is_expected()) first = std::min(first, a.pauses.next(now));
    if (pays_since_ != kNever && is_in_paid_pause(a))
      first = std::min(first, pays_since_ + a.balance);
    if (a.wants && has_reserve(a) && !(a.joint && may_use_reserve(a))) {
      Microseconds lack = std::max<Microseconds>(threshold(a) - a.reserve, 0);
      // NOLINTNEXTLINE(custom-unchecked-product): at most a turn and a debt of turns
      first = std::min(first, std::max(now, a.reserved_at + lack * 100 / a.share.percent + 1));
    }
  }
  return first;
}

// Two accounts need turns: the work of the first one counts as the first turn.
void Arbiter::set_share(const Id& id, const Share& share, Microseconds now) {
  forget_settled(now);
  accrue(now);  // by the percents until now
  bool was_open = is_open();
  Id first = was_open ? only_present()->first : Id();
  Account& a = accounts_[id];
  list_accounts();
  change_share(a, {share.mode, std::clamp<uint32_t>(share.percent, 1, 100)}, now);
  a.present = true;
  a.balance = std::min(a.balance, most_balance(a));
  a.reserve = std::min(a.reserve, quantum(a) + kTurn);
  look_for_reserves();
  look_for_open();
  if (was_open == is_open()) return advance(now);
  if (!was_open) return begin_open(now);
  end_turn(now);
  grant(*accounts_.find(first), now);
}

void Arbiter::remove(const Id& id, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end()) return;
  Account& a = it->second;
  accrue(now);  // it may have had the GPU for itself until now
  note_late(now);
  if (holder_ == id) end_turn(now);
  if (called_ == id) called_ = {};
  late_drained(id, now);
  a.present = a.wants = a.joint = false;
  look_for_open();
  a.pauses.expire();
  a.left_at = now;
  a.left_with = a.balance = std::min<Microseconds>(a.balance, 0);
  forget_settled(now);
  if (is_open()) begin_open(now);
  advance(now);
}

// Who has the GPU for itself has no turns, so no late one either.
void Arbiter::begin_open(Microseconds now) {
  end_turn(now);
  pays_since_ = kNever;
  for (auto& [id, a] : accounts_) a.late_since = a.late_until = kNever;
}

void Arbiter::want(const Id& id, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end()) return;
  if (id != holder_ || is_revoked()) {
    accrue(now);
    note_late(now);
    pay_for_pauses(now);
    it->second.pauses.end(now);
    it->second.wants = true;
    if (is_free_ && !is_revoked() && may_use_credit(it->second)) {
      it->second.balance -= Pauses::kReturn;
      revoke(now);
      charged_until_ = now + Pauses::kReturn;
    }
  }
  advance(now);
}

void Arbiter::drained(const Id& id, bool wants, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end()) return;
  accrue(now);
  note_late(now);
  if (id == holder_) {
    end_turn(now);
    it->second.late_since = kNever;
    if (!wants) begin_pause(it->second, now);
  }
  it->second.wants = wants;
  advance(now);
}

void Arbiter::late_drained(const Id& id, Microseconds now) {
  auto it = accounts_.find(id);
  if (it == accounts_.end() || !is_late(it->second)) return;
  note_late(now);
  charge_late(now);
  it->second.late_since = it->second.late_until = kNever;
}

bool Arbiter::set_joint(const Id& id, bool joint) {
  if (!joint && called_ == id) called_ = {};
  auto it = accounts_.find(id);
  return it != accounts_.end() && std::exchange(it->second.joint, joint) != joint;
}

bool Arbiter::is_due(const Id& id) const {
  auto it = accounts_.find(id);
  if (it == accounts_.end() || !it->second.wants || holder_ == id) return false;
  const Account& a = it->second;
  // Its late turns are paid until the last call of advance().
  return is_late_for_long(a, a.late_until) || may_use_reserve(a) || may_use_balance(a);
}

bool Arbiter::is_turn_of_others(const Id& id) const {
  return last_ == id && others_need(id);
}

void Arbiter::call(const Id& id, Microseconds now) {
  called_ = id;
  advance(now);
}

void Arbiter::begin(Microseconds now) {
  if (holder_ && ends_at_ == kNever && !is_revoked())
    ends_at_ = now + (is_holder_late() ? kTurn : turn_length(accounts_.at(holder_)));
}

void Arbiter::revoke(Microseconds now) {
  if (!holder_ || is_revoked()) return;
  charge(now);
  is_free_ = false;
  revoked_at_ = now;
}

Arbiter::Id Arbiter::take_overdue() {
  return std::exchange(overdue_, {});
}

Microseconds Arbiter::charged(const Id& id) const {
  auto it = accounts_.find(id);
  return it == accounts_.end() ? 0 : it->second.charged;
}

Microseconds Arbiter::late(const Id& id) const {
  auto it = accounts_.find(id);
  return it == accounts_.end() ? 0 : it->second.late;
}

}  // namespace busbar::launcher
