// The debts of accounts that leave, come back or change their share.
//
// A debt is GPU time. A capped account pays it by the clock (`reserve`). Other accounts pay it by
// rounds (`balance`). A guaranteed account pays it in both ways.
#include <algorithm>

#include "launcher/arbiter.h"

namespace busbar::launcher {

Microseconds Arbiter::reserve_at(const Account& a, Microseconds now) {
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return a.reserve + (now - a.reserved_at) * a.share.percent / 100;
}

// Returns it as a number that is at most 0. The clock pays the debts of an account that is not
// present, too, while there are no rounds.
Microseconds Arbiter::debt(const Account& a, Microseconds now) {
  if (is_capped(a)) return std::min<Microseconds>(reserve_at(a, now), 0);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  Microseconds paid = (now - a.left_at) * a.share.percent / 100;
  Microseconds left = a.present ? a.balance : std::max(a.balance, a.left_with + paid);
  return std::min<Microseconds>(left, 0);
}

bool Arbiter::is_settled(const Account& a, Microseconds now) {
  return !a.present && debt(a, now) == 0;
}

bool Arbiter::is_settled(Microseconds now) const {
  return std::ranges::all_of(accounts_, [now](auto& a) { return is_settled(a.second, now); });
}

void Arbiter::forget_settled(Microseconds now) {
  std::erase_if(accounts_, [now](auto& entry) { return is_settled(entry.second, now); });
  list_accounts();
}

void Arbiter::list_accounts() {
  in_order_.clear();
  for (auto it = accounts_.begin(); it != accounts_.end(); ++it) in_order_.push_back(it);
}

// The debt goes over to where the account pays from now on. What a guaranteed account used beyond
// its percent while others did not need the GPU is in its reserve only, and no debt.
void Arbiter::change_share(Account& a, const Share& share, Microseconds now) {
  Microseconds owed = debt(a, now);
  bool was_capped = is_capped(a), had_reserve = has_reserve(a);
  a.share = share;
  if (was_capped || !a.present) a.balance = owed;
  if (is_capped(a)) a.balance = 0;
  if (is_capped(a) != was_capped || has_reserve(a) != had_reserve) {
    a.reserve = owed;
    a.reserved_at = now;
  }
  a.left_at = now;
  a.left_with = a.balance;
}

// Two debts of accounts that are not present are paid in the slower way of both.
void Arbiter::move_debt(const Id& from, const Id& to, Microseconds now) {
  forget_settled(now);
  auto it = accounts_.find(from);
  if (from == to || it == accounts_.end() || it->second.present) return;
  accrue(now);
  Account left = it->second;
  accounts_.erase(it);
  auto [other, added] = accounts_.try_emplace(to, left);
  list_accounts();
  if (added) return;
  Account& a = other->second;
  if (!a.present) {
    bool any_capped = is_capped(a) || is_capped(left);  // a cap of 100 percent is none
    auto mode = any_capped ? control::ComputeMode::capped : control::ComputeMode::shared;
    change_share(a, {mode, std::min(a.share.percent, left.share.percent)}, now);
  }
  Microseconds owed = debt(left, now);
  if (has_reserve(a)) a.reserve += owed;
  if (!is_capped(a)) a.balance += owed;
  a.left_with = a.balance;
}

}  // namespace busbar::launcher
