#include "client/deliveries.h"

#include <algorithm>

namespace busbar::client {

void Deliveries::remove_if(const std::function<bool(uint64_t transfer)>& complete) {
  std::erase_if(ranges_, [&](const Range& r) { return complete(r.transfer); });
}

void Deliveries::for_each_gap(uint64_t bytes,
                              const std::function<void(uint64_t, uint64_t)>& f) const {
  auto sorted = ranges_;
  std::ranges::sort(sorted, {}, &Range::offset);
  uint64_t at = 0;
  for (auto& r : sorted) {
    if (r.offset > at) f(at, r.offset - at);
    at = std::max(at, r.offset + r.bytes);
  }
  if (at < bytes) f(at, bytes - at);
}

}  // namespace busbar::client
