#include "client/heap.h"

#include <algorithm>

#include "checked_size.h"

namespace busbar::client {

namespace {
constexpr uint64_t kAlign = 512;
uint64_t round_up(uint64_t v, uint64_t a) {
  return CheckedSize(v).rounded_up(a).value();
}
}  // namespace

// Best fit keeps large free ranges large.
bool Heap::allocate_free(uint64_t bytes, uint64_t& at) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
  if (best == free_.end()) return false;
  at = best->first;
  uint64_t left = best->second - bytes;
  free_.erase(best);
  if (left) free_[at + bytes] = left;
  allocated_ += bytes;
  return true;
}

// Requests a lease of kLeaseBytes, or of the needed size when the node refuses that.
bool Heap::add_lease(uint64_t bytes) {
  uint64_t need = round_up(bytes, wire::kGranularity);
  for (uint64_t want : {std::max(need, wire::kLeaseBytes), need}) {
    uint64_t at = cursor_;
    auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](auto& g) { return g.second >= want; });
    if (gap != gaps_.end())
      at = gap->first;
    else if (!(CheckedSize(cursor_) + want).within(end_))
      continue;
    if (lease_(at, want) != CUDA_SUCCESS) continue;
    if (gap != gaps_.end()) {
      uint64_t left = gap->second - want;
      gaps_.erase(gap);
      if (left) gaps_[at + want] = left;
    } else
      cursor_ += want;
    leases_[at] = want;
    free_[at] = want;
    return true;
  }
  return false;
}

void Heap::insert_free(uint64_t at, uint64_t bytes) {
  auto lease_of = [&](uint64_t a) {
    return std::prev(leases_.upper_bound(a))->first;
  };
  auto it = free_.emplace(at, bytes).first;
  if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first &&
                                 lease_of(next->first) == lease_of(at)) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin())
    if (auto before = std::prev(it);
        before->first + before->second == it->first && lease_of(before->first) == lease_of(at)) {
      before->second += it->second;
      free_.erase(it);
    }
}

void Heap::reclaim_completed() {
  for (size_t i = 0; i < pending_.size();) {
    if (!pending_[i].done()) {
      ++i;
      continue;
    }
    insert_free(pending_[i].at, pending_[i].bytes);
    pending_[i] = std::move(pending_.back());
    pending_.pop_back();
  }
}

// Returns unused leases, so that other sessions of the allocation can use the memory. With
// `keep_one`, one lease of the ordinary size stays for the next allocation.
void Heap::return_empty_leases(bool keep_one) {
  for (auto it = leases_.begin(); it != leases_.end();) {
    auto f = free_.find(it->first);
    bool empty = f != free_.end() && f->second == it->second;
    if (empty && keep_one && it->second <= wire::kLeaseBytes) {
      keep_one = false;
      empty = false;
    }
    if (!empty) {
      ++it;
      continue;
    }
    return_lease_(it->first, it->second);
    gaps_[it->first] = it->second;
    free_.erase(f);
    it = leases_.erase(it);
  }
}

CUresult Heap::allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at) {
  uint64_t need = round_up(bytes, kAlign);
  if (need == UINT64_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock lock(mutex_);
  reclaim_completed();
  if (allocate_free(need, at)) return CUDA_SUCCESS;
  if (add_lease(need) && allocate_free(need, at)) return CUDA_SUCCESS;
  if (!pending_.empty()) {
    lock.unlock();
    drain();
    lock.lock();
    reclaim_completed();
    if (allocate_free(need, at)) return CUDA_SUCCESS;
  }
  return_empty_leases(false);  // several small leases may make room for a large one
  return add_lease(need) && allocate_free(need, at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Heap::release(uint64_t at, uint64_t bytes, Done done, bool is_exceeded) {
  uint64_t n = round_up(bytes, kAlign);
  std::lock_guard lock(mutex_);
  allocated_ -= n;
  pending_.push_back({at, n, std::move(done)});
  reclaim_completed();
  return_empty_leases(!is_exceeded);
}

void Heap::return_unused() {
  std::lock_guard lock(mutex_);
  reclaim_completed();
  return_empty_leases(false);
}

uint64_t Heap::leased_bytes() {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (auto& [at, bytes] : leases_) total += bytes;
  return total;
}

uint64_t Heap::allocated_bytes() {
  std::lock_guard lock(mutex_);
  return allocated_;
}

}  // namespace busbar::client
