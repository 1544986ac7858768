#include "launcher/refusal_log.h"

#include <utility>

#include "control/log.h"

namespace busbar::launcher {

void RefusalLog::add(const std::string& network, const std::string& client,
                     const std::string& reason, int64_t now_ms) {
  uint64_t omitted = 0;
  {
    MutexLock lock(mutex_);
    bool first = first_by_network_.take(network, now_ms) && first_.take(kFirstRefusals, now_ms);
    if (!first && !all_.take(kRefusals, now_ms)) {
      ++omitted_;
      return;
    }
    std::swap(omitted, omitted_);
  }
  std::string consequence = reason;
  if (omitted) consequence += "; " + std::to_string(omitted) + " other refusals were not logged";
  control::log_line("launcher", "connection refused", client, consequence);
}

}  // namespace busbar::launcher
