#include "client/heap.h"

#include <algorithm>
#include <iterator>

#include "checked_size.h"

namespace busbar::client {

namespace {
constexpr uint64_t kAlign = 512;
uint64_t round_up(uint64_t v, uint64_t a) {
  return CheckedSize(v).rounded_up(a).value();
}
}  // namespace

// Adds a range and merges it with its neighbours.
void Heap::add(Ranges& ranges, uint64_t at, uint64_t bytes) {
  auto it = ranges.emplace(at, bytes).first;
  if (auto next = std::next(it); next != ranges.end() && at + bytes == next->first) {
    it->second += next->second;
    ranges.erase(next);
  }
  if (it == ranges.begin()) return;
  auto before = std::prev(it);
  if (before->first + before->second != at) return;
  before->second += it->second;
  ranges.erase(it);
}

// Removes a range that lies inside one of the map.
void Heap::remove(Ranges& ranges, uint64_t at, uint64_t bytes) {
  auto it = std::prev(ranges.upper_bound(at));
  uint64_t begin = it->first, end = begin + it->second;
  if (begin < at)
    it->second = at - begin;
  else
    ranges.erase(it);
  if (at + bytes < end) ranges[at + bytes] = end - at - bytes;
}

// True for an address in the lease of a large allocation.
bool Heap::is_for_large(uint64_t at) const {
  return std::prev(leases_.upper_bound(at))->second > wire::kLeaseBytes;
}

// Best fit keeps large free ranges large. Small ranges are taken from the leases of large
// allocations only with `anywhere`: they would keep such a lease when its allocation ends.
bool Heap::allocate_free(uint64_t bytes, uint64_t& at, bool anywhere) {
  anywhere |= bytes > wire::kLeaseBytes || !large_leases_;
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->second >= bytes && (best == free_.end() || it->second < best->second) &&
        (anywhere || !is_for_large(it->first)))
      best = it;
  if (best == free_.end()) return false;
  at = best->first;
  uint64_t left = best->second - bytes;
  free_.erase(best);
  if (left) free_[at + bytes] = left;
  free_bytes_ -= bytes;
  return true;
}

// Returns the place that needs the fewest bytes, counting free memory on both sides. No free range
// has room for `bytes` by itself.
Heap::Place Heap::best_place(uint64_t bytes) const {
  Place best;
  for (auto& [at, size] : gaps_) {
    auto after = free_.lower_bound(at);
    auto before = after == free_.begin() ? free_.end() : std::prev(after);
    bool continues = before != free_.end() && before->first + before->second == at;
    uint64_t missing = bytes - (continues ? before->second : 0);
    bool meets = after != free_.end() && after->first == at + size;
    if (missing > size && (!meets || missing - size > after->second)) continue;
    uint64_t least = std::min(round_up(missing, wire::kGranularity), size);
    if (!best.least || least < best.least) best = {at, least, size};
  }
  return best;
}

// Releases the mutex while it waits for the node. The gap belongs to the request meanwhile.
bool Heap::take_lease(uint64_t at, uint64_t bytes, bool asks) {
  remove(gaps_, at, bytes);
  CUresult r;
  {
    MutexUnlock unlock(mutex_);
    r = lease_(at, bytes, asks);
  }
  if (r) {
    add(gaps_, at, bytes);
    return false;
  }
  leases_[at] = bytes;
  leased_ += bytes;
  large_leases_ += bytes > wire::kLeaseBytes;
  add(free_, at, bytes);
  free_bytes_ += bytes;
  return true;
}

// Takes the end of the smallest gap that has room.
bool Heap::add_own_lease(uint64_t bytes) {
  uint64_t own = round_up(bytes, wire::kGranularity);
  auto best = gaps_.end();
  for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
    if (it->second >= own && (best == gaps_.end() || it->second < best->second)) best = it;
  return best != gaps_.end() && take_lease(best->first + best->second - own, own, false);
}

// Requests a lease of `growth` bytes, or of the needed size when the node refuses more.
bool Heap::add_shared_lease(uint64_t bytes, uint64_t growth) {
  Place place = best_place(bytes);
  if (!place.least) return false;
  uint64_t want = std::clamp(growth, place.least, place.most);
  return take_lease(place.at, want, false) ||
         (want > place.least && take_lease(place.at, place.least, false));
}

// Leases grow with the memory in use, so that small programs take little and others seldom wait.
bool Heap::add_lease(uint64_t bytes) {
  uint64_t growth = std::min(leased_, wire::kLeaseBytes);
  return bytes > growth ? add_own_lease(bytes) : add_shared_lease(bytes, growth);
}

// The same with all memory that is left, and with `asks` with what other sessions do not use.
bool Heap::add_last_lease(uint64_t bytes, bool asks) {
  Place place = best_place(bytes);
  return place.least && take_lease(place.at, place.least, asks);
}

void Heap::reclaim_completed() {
  for (size_t i = 0; i < pending_.size();) {
    if (!pending_[i].done()) {
      ++i;
      continue;
    }
    add(free_, pending_[i].at, pending_[i].bytes);
    free_bytes_ += pending_[i].bytes;
    pending_[i] = std::move(pending_.back());
    pending_.pop_back();
    reclaimed_ = true;
  }
}

// Returns unused leases, so that other sessions of the allocation can use the memory, except for
// `keep` bytes of them. Returns false if there are none.
bool Heap::return_empty_leases(uint64_t keep) {
  size_t before = leases_.size();
  for (auto it = leases_.begin(); it != leases_.end();) {
    auto [at, bytes] = *it;
    auto f = free_.upper_bound(at);
    bool empty = f != free_.begin() && std::prev(f)->first + std::prev(f)->second >= at + bytes;
    if (!empty || bytes <= keep) {
      if (empty) keep -= bytes;
      ++it;
      continue;
    }
    return_lease_(at, bytes);
    remove(free_, at, bytes);
    add(gaps_, at, bytes);
    free_bytes_ -= bytes;
    leased_ -= bytes;
    large_leases_ -= bytes > wire::kLeaseBytes;
    it = leases_.erase(it);
  }
  return leases_.size() < before;
}

// Makes freed ranges available, and returns leases as above. Searches nothing while no lease can
// have become unused or `keep` covers all free memory.
bool Heap::return_surplus(uint64_t keep) {
  reclaim_completed();
  if (free_bytes_ <= keep || (keep && !reclaimed_)) return false;
  reclaimed_ = false;
  return return_empty_leases(keep);
}

// Waits for the work that blocks freed ranges.
void Heap::drain_pending(const std::function<void()>& drain) {
  {
    MutexLock lock(mutex_);
    reclaim_completed();
    if (pending_.empty()) return;
  }
  drain();
}

// Allocates a range in new leases. They may have become too small when they arrive, because other
// threads take free memory beside them. The last attempt leaves nothing unused.
bool Heap::allocate_leased(uint64_t bytes, uint64_t& at, bool is_last, bool asks) {
  MutexLock growing(growth_mutex_);
  MutexLock lock(mutex_);
  reclaim_completed();
  if (allocate_free(bytes, at, is_last)) return true;
  if (is_last) return_empty_leases(0);  // several small leases may make room for a large one
  while (is_last ? add_last_lease(bytes, asks) : add_lease(bytes))
    if (allocate_free(bytes, at, true)) return true;
  return allocate_free(bytes, at, true);
}

CUresult Heap::allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at,
                        bool asks) {
  uint64_t need = round_up(bytes, kAlign);
  if (need == UINT64_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  {
    MutexLock lock(mutex_);
    return_surplus(wire::kLeaseBytes);
    if (allocate_free(need, at, false)) return CUDA_SUCCESS;
  }
  if (allocate_leased(need, at, false, false)) return CUDA_SUCCESS;
  if (drain) drain_pending(drain);
  return allocate_leased(need, at, true, asks) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Heap::release(uint64_t at, uint64_t bytes, Done done, bool is_exceeded) {
  uint64_t n = round_up(bytes, kAlign);
  MutexLock lock(mutex_);
  pending_.push_back({at, n, freed_++, std::move(done)});
  return_surplus(is_exceeded ? 0 : wire::kLeaseBytes);
}

bool Heap::return_unused() {
  MutexLock lock(mutex_);
  return return_surplus(0);
}

uint64_t Heap::freed() {
  MutexLock lock(mutex_);
  return freed_;
}

size_t Heap::pending(uint64_t count) {
  MutexLock lock(mutex_);
  return (size_t)std::ranges::count_if(pending_,
                                       [&](auto& p) { return p.number < count && !p.done(); });
}

uint64_t Heap::unused_bytes() {
  MutexLock lock(mutex_);
  uint64_t total = 0;
  for (auto& [at, bytes] : free_)
    if (bytes >= wire::kGranularity) total += bytes;
  for (auto& p : pending_) total += p.bytes;
  return total;
}

}  // namespace busbar::client
