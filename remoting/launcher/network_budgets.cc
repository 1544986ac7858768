#include "launcher/network_budgets.h"

#include <algorithm>

namespace busbar::launcher {

bool Budget::is_empty(const Rate& rate, int64_t now_ms) const {
  // NOLINTNEXTLINE(custom-unchecked-product): rates are constants of the launcher
  return std::max(full_ms_, now_ms) + rate.interval_ms > now_ms + rate.burst * rate.interval_ms;
}

bool Budget::take(const Rate& rate, int64_t now_ms) {
  if (is_empty(rate, now_ms)) return false;
  full_ms_ = std::max(full_ms_, now_ms) + rate.interval_ms;
  return true;
}

bool NetworkBudgets::is_empty(const std::string& network, int64_t now_ms) const {
  auto it = by_network_.find(network);
  return it != by_network_.end() && it->second.is_empty(rate_, now_ms);
}

bool NetworkBudgets::take(const std::string& network, int64_t now_ms) {
  auto it = by_network_.find(network);
  if (it == by_network_.end()) {
    if (by_network_.size() >= kMaxKnownNetworks)
      std::erase_if(by_network_, [&](const auto& entry) { return entry.second.is_full(now_ms); });
    if (by_network_.size() >= kMaxKnownNetworks) return true;
    it = by_network_.try_emplace(network).first;
  }
  return it->second.take(rate_, now_ms);
}

}  // namespace busbar::launcher
