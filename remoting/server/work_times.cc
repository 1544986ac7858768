#include "server/work_times.h"

#include <algorithm>
#include <cmath>

namespace busbar::server {

namespace {
constexpr double kHalfLifeNs = 100e6;
}

const WorkTimes::Entry* WorkTimes::find(uint64_t key) const {
  auto& set = entries_[key % kSets];
  auto it = std::ranges::find_if(
      set, [key](const Entry& e) { return e.key.load(std::memory_order_relaxed) == key; });
  return it == set.end() ? nullptr : &*it;
}

WorkTime WorkTimes::expected(uint64_t key) const {
  const Entry* e = find(key);
  if (!e) return {};
  return {e->average.load(std::memory_order_relaxed), e->longest.load(std::memory_order_relaxed)};
}

WorkTimes::Entry& WorkTimes::find_or_add(uint64_t key) {
  if (const Entry* known = find(key)) return const_cast<Entry&>(*known);
  Entry& e = *std::ranges::min_element(entries_[key % kSets], {}, &Entry::learnt_at);
  e.average.store(0, std::memory_order_relaxed);
  e.longest.store(0, std::memory_order_relaxed);
  e.newest = 0;
  e.took = e.records = 0;
  e.key.store(key, std::memory_order_relaxed);
  return e;
}

void WorkTimes::learn(uint64_t key, uint32_t records, int64_t took_ns, int64_t worked_ns) {
  Entry& e = find_or_add(key);
  int64_t each = std::clamp<int64_t>(took_ns / records, 1, kLongest);
  double fade = std::exp2(-(double)(worked_ns - e.learnt_at) / kHalfLifeNs);
  e.took = e.took * fade + (double)each * records;
  e.records = e.records * fade + records;
  auto average = std::max<int64_t>((int64_t)(e.took / e.records), 1);
  auto earlier = (int64_t)((double)e.longest.load(std::memory_order_relaxed) * fade);
  int64_t confirmed = std::min(each, e.newest);
  e.longest.store(std::max({average, confirmed, earlier}), std::memory_order_relaxed);
  e.average.store(average, std::memory_order_relaxed);
  e.newest = each;
  e.learnt_at = worked_ns;
}

}  // namespace busbar::server
