#include "launcher/arbiters.h"

namespace busbar::launcher {

std::map<SessionId, uint32_t> Arbiters::too_late() {
  std::lock_guard lock(mutex_);
  std::map<SessionId, uint32_t> found;
  for (auto& [fd, member] : members_) {
    const std::string& id = member->account.allocation;
    auto granted = allocations_.find(id);
    uint32_t seconds = granted == allocations_.end() ? 0 : granted->second.max_late_seconds;
    if (!seconds) continue;
    auto limit = (Microseconds)seconds * 1'000'000;  // NOLINT(custom-unchecked-product): 32 bits
    for (const Place& place : member->places)
      if (place.late_from != Arbiter::kNever &&
          place.gpu->arbiter.late(id) - place.late_from >= limit)
        found[member->account.session] = seconds;
  }
  return found;
}

}  // namespace busbar::launcher
