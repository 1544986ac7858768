// Log lines for refused connections, within budgets: a stranger chooses how many there are, and
// the log drops its oldest lines. The first refusals of a network have a budget of their own, so
// that a flood from other networks does not hide them.
//
// Thread safety: any thread. No member blocks.
#pragma once
#include <cstdint>
#include <string>

#include "launcher/network_budgets.h"
#include "mutex.h"

namespace busbar::launcher {

constexpr Rate kRefusals{20, 3000};
constexpr Rate kFirstRefusals{40, 3000};  // of all networks together
constexpr Rate kFirstRefusalsOfNetwork{2, 600'000};

class RefusalLog {
 public:
  // Writes a line unless the budgets are used up. A line names the number of those before it that
  // were not written. `now_ms` is monotonic.
  void add(const std::string& network, const std::string& client, const std::string& reason,
           int64_t now_ms);

 private:
  Mutex mutex_;
  Budget all_ GUARDED_BY(mutex_), first_ GUARDED_BY(mutex_);
  NetworkBudgets first_by_network_ GUARDED_BY(mutex_){kFirstRefusalsOfNetwork};
  uint64_t omitted_ GUARDED_BY(mutex_) = 0;
};

}  // namespace busbar::launcher
