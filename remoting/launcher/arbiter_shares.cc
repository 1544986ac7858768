#include <algorithm>

#include "launcher/arbiters.h"

namespace busbar::launcher {

std::vector<control::ShareRecord> Arbiters::shares() {
  FairLock lock(mutex_);
  Microseconds now = clock_();
  std::vector<control::ShareRecord> found;
  for (auto& [id, a] : allocations_) {
    if (!a.is_granted) continue;
    control::ShareRecord record{};
    std::ranges::copy(a.grant.id, record.allocation);
    std::ranges::fill(record.received, control::kUnknownShare);
    for (uint32_t p = 0; p < a.grant.partitions; ++p) {
      GpuUuid uuid;
      std::ranges::copy(a.grant.partition[p].gpu_uuid, uuid.begin());
      auto gpu = gpus_.find(uuid);
      if (gpu == gpus_.end()) continue;
      record.received[p] = gpu->second.received.share(a.id, gpu->second.arbiter.charged(a.id), now);
    }
    bool is_known = std::ranges::any_of(
        record.received, [](uint32_t share) { return share != control::kUnknownShare; });
    if (is_known) found.push_back(record);
  }
  return found;
}

}  // namespace busbar::launcher
