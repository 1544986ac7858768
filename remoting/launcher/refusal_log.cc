#include "launcher/refusal_log.h"

#include <algorithm>

#include "control/log.h"

namespace busbar::launcher {

void RefusalLog::add(const std::string& client, const std::string& reason, int64_t now_ms) {
  uint64_t omitted = 0;
  {
    std::lock_guard lock(mutex_);
    int64_t spent_ms = std::max(spent_ms_, now_ms) + kRefusalMs;
    if (spent_ms > now_ms + kRefusalBurst * kRefusalMs) {
      ++omitted_;
      return;
    }
    spent_ms_ = spent_ms;
    std::swap(omitted, omitted_);
  }
  std::string consequence = reason;
  if (omitted) consequence += "; " + std::to_string(omitted) + " other refusals were not logged";
  control::log_line("launcher", "connection refused", client, consequence);
}

}  // namespace busbar::launcher
