// Budgets by the network of a client: some actions at once, then one more after each interval.
//
// Thread safety: none. The owner serializes all calls. No member blocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace busbar::launcher {

// Actions that are allowed at once, and the time after which one more is.
struct Rate {
  int64_t burst, interval_ms;
};

// The budget of one network, or of all.
class Budget {
 public:
  bool is_empty(const Rate& rate, int64_t now_ms) const;
  // False if the budget is used up. `now_ms` is monotonic.
  bool take(const Rate& rate, int64_t now_ms);
  // True once the whole budget is available again.
  bool is_full(int64_t now_ms) const { return full_ms_ <= now_ms; }

 private:
  int64_t full_ms_ = 0;
};

class NetworkBudgets {
 public:
  explicit NetworkBudgets(Rate rate) : rate_(rate) {}

  bool is_empty(const std::string& network, int64_t now_ms) const;
  // False if the budget is used up. A network that exceeds the number of known ones has no limit.
  bool take(const std::string& network, int64_t now_ms);
  size_t size() const { return by_network_.size(); }

 private:
  Rate rate_;
  std::unordered_map<std::string, Budget> by_network_;
};

constexpr size_t kMaxKnownNetworks = 4096;

}  // namespace busbar::launcher
