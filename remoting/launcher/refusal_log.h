// Log lines for refused connections, within a budget: a stranger chooses how many there are, and
// the log drops its oldest lines.
//
// Thread safety: any thread. No member blocks.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

namespace busbar::launcher {

// Lines that may be written at once, and the time after which one more may be.
constexpr int64_t kRefusalBurst = 20, kRefusalMs = 3000;

class RefusalLog {
 public:
  // Writes a line unless the budget is used up. A line names the number of those before it that
  // were not written. `now_ms` is monotonic.
  void add(const std::string& client, const std::string& reason, int64_t now_ms);

 private:
  std::mutex mutex_;
  int64_t spent_ms_ = 0;  // time at which the whole budget is available again
  uint64_t omitted_ = 0;
};

}  // namespace busbar::launcher
