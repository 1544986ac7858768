#include <algorithm>

#include "launcher/arbiters.h"

namespace busbar::launcher {

std::vector<control::ShareRecord> Arbiters::shares() {
  std::lock_guard lock(mutex_);
  Microseconds now = clock_();
  std::vector<control::ShareRecord> found;
  for (auto& [id, allocation] : allocations_) {
    control::ShareRecord record{};
    std::ranges::copy(allocation.id, record.allocation);
    std::ranges::fill(record.received, control::kUnknownShare);
    for (uint32_t p = 0; p < allocation.partitions; ++p) {
      GpuUuid uuid;
      std::ranges::copy(allocation.partition[p].gpu_uuid, uuid.begin());
      auto gpu = gpus_.find(uuid);
      if (gpu == gpus_.end()) continue;
      record.received[p] = gpu->second.received.share(id, gpu->second.arbiter.charged(id), now);
    }
    bool is_known = std::ranges::any_of(
        record.received, [](uint32_t share) { return share != control::kUnknownShare; });
    if (is_known) found.push_back(record);
  }
  return found;
}

}  // namespace busbar::launcher
