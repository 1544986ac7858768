#include <algorithm>
#include <utility>

#include "launcher/arbiter.h"

namespace busbar::launcher {

bool Arbiter::is_in_paid_pause(const Account& a) {
  return a.pauses.is_expected() && !a.joint && a.balance > 0;
}

// Returns the most that an account in a paid pause can pay, or 0 if there is none.
Microseconds Arbiter::credit_in_pauses() const {
  if (!has_pauses_ || has_joint()) return 0;
  Microseconds most = 0;
  for (auto& [id, a] : accounts_)
    if (is_in_paid_pause(a)) most = std::max(most, a.balance);
  return most;
}

// Joint accounts are chosen elsewhere, so they cannot use a pause.
bool Arbiter::has_joint() const {
  return std::ranges::any_of(accounts_, [](auto& entry) { return entry.second.joint; });
}

bool Arbiter::has_waiting() const {
  auto waits = [](auto& entry) {
    return entry.second.wants && !is_capped(entry.second);
  };
  return std::ranges::any_of(accounts_, waits);
}

Microseconds Arbiter::end_of_short_pauses() const {
  Microseconds end = 0;
  for (auto& [id, a] : accounts_)
    if (is_in_paid_pause(a)) end = std::max(end, a.pauses.short_until());
  return end;
}

// Credit of an account without work does not accumulate.
void Arbiter::begin_pause(Account& a, Microseconds now) {
  a.pauses.begin(now);
  if (has_joint()) a.pauses.expire();
  has_pauses_ |= a.pauses.is_expected();
  if (!a.pauses.is_expected()) a.balance = std::min<Microseconds>(a.balance, 0);
}

void Arbiter::pay_for_pauses(Microseconds now) {
  Microseconds since = std::exchange(pays_since_, kNever);
  if (!std::exchange(has_pauses_, false)) return;
  for (auto& [id, a] : accounts_) {
    if (!a.pauses.is_expected()) continue;
    if (since != kNever && is_in_paid_pause(a))
      a.balance = std::max<Microseconds>(a.balance - (now - since), 0);
    if (a.pauses.until() <= now) {
      a.pauses.expire();
      a.balance = std::min<Microseconds>(a.balance, 0);
    }
    has_pauses_ |= a.pauses.is_expected();
  }
}

// A turn in a pause ends when no account can pay for it any more. A small one would owe the credit
// of many rounds.
void Arbiter::begin_to_pay(Microseconds now) {
  if ((holder_ && !is_free_) || !has_waiting()) return;
  Microseconds credit = credit_in_pauses();
  if (credit) pays_since_ = now;
  if (is_free_) ends_at_ = std::min(ends_at_, now + credit);
}

// Returns end() while the GPU waits for the end of a pause that no account may use.
Arbiter::Accounts::iterator Arbiter::pick_in_pause(Microseconds now) {
  auto it = after_last(&Arbiter::may_use_pause);
  bool waits = it == accounts_.end() && now < end_of_short_pauses();
  return waits || it != accounts_.end() ? it : after_last(&Arbiter::may_use_long_pause);
}

}  // namespace busbar::launcher
