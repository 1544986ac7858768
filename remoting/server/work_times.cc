#include "server/work_times.h"

#include <algorithm>
#include <cmath>

namespace busbar::server {

namespace {
constexpr double kHalfLifeNs = 500e6;
}

void WorkTimes::learn(uint64_t key, int64_t ns, int64_t worked_ns) {
  Entry& e = entries_[key % kEntries];
  bool is_known = e.key.load(std::memory_order_relaxed) == key;
  double earlier = is_known ? e.ns.load(std::memory_order_relaxed) : 0;
  earlier *= std::exp2(-(double)(worked_ns - e.learnt_at) / kHalfLifeNs);
  int64_t longest = std::max(ns, (int64_t)earlier);
  e.ns.store((uint32_t)std::clamp<int64_t>(longest, 1, kLongest), std::memory_order_relaxed);
  e.key.store(key, std::memory_order_relaxed);
  e.learnt_at = worked_ns;
}

void WorkTimes::forget(uint64_t key) {
  Entry& e = entries_[key % kEntries];
  if (e.key.load(std::memory_order_relaxed) == key) e.ns.store(kUnknown, std::memory_order_relaxed);
}

void WorkTimes::forget_all() {
  for (Entry& e : entries_) e.ns.store(kUnknown, std::memory_order_relaxed);
}

}  // namespace busbar::server
