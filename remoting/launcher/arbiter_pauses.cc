#include <algorithm>
#include <utility>

#include "launcher/arbiter.h"

namespace busbar::launcher {

bool Arbiter::is_in_paid_pause(const Account& a) {
  return a.pauses.is_expected() && !a.joint && a.balance > 0;
}

bool Arbiter::has_paid_pause() const {
  auto is_paid = [](auto& entry) {
    return is_in_paid_pause(entry.second);
  };
  return has_pauses_ && !has_joint() && std::ranges::any_of(accounts_, is_paid);
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
    if (since != kNever && is_in_paid_pause(a)) a.balance -= now - since;
    if (a.pauses.until() <= now) {
      a.pauses.expire();
      a.balance = std::min<Microseconds>(a.balance, 0);
    }
    has_pauses_ |= a.pauses.is_expected();
  }
}

// Returns end() while the GPU waits for the end of a short pause.
Arbiter::Accounts::iterator Arbiter::pick_in_pause(Microseconds now) {
  auto it = after_last(&Arbiter::may_use_pause);
  bool waits = it == accounts_.end() && now < end_of_short_pauses();
  return waits || it != accounts_.end() ? it : after_last(&Arbiter::may_use_long_pause);
}

}  // namespace busbar::launcher
