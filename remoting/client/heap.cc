#include "client/heap.h"

#include <algorithm>

namespace busbar::client {

namespace {
constexpr uint64_t kAlign = 512;
uint64_t round_up(uint64_t v, uint64_t a) {
  return (v + a - 1) & ~(a - 1);
}
}  // namespace

bool Heap::take(uint64_t bytes, uint64_t& at) {
  auto best = free_.end();  // best fit keeps large holes large
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

// A new lease: a whole block if the node has one, else just what is needed.
bool Heap::grow(uint64_t bytes) {
  uint64_t need = round_up(bytes, wire::kGranularity);
  for (uint64_t want : {std::max(need, wire::kLeaseBytes), need}) {
    uint64_t at = cursor_;
    auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](auto& g) { return g.second >= want; });
    if (gap != gaps_.end())
      at = gap->first;
    else if (cursor_ + want > end_)
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

void Heap::put_back(uint64_t at, uint64_t bytes) {
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

void Heap::settle() {
  for (size_t i = 0; i < pending_.size();) {
    if (!pending_[i].done()) {
      ++i;
      continue;
    }
    put_back(pending_[i].at, pending_[i].bytes);
    pending_[i] = std::move(pending_.back());
    pending_.pop_back();
  }
}

// One empty block stays for the next allocation; the others go back to the allocation's other
// sessions.
void Heap::return_empty_leases() {
  bool kept = false;
  for (auto it = leases_.begin(); it != leases_.end();) {
    auto f = free_.find(it->first);
    bool empty = f != free_.end() && f->second == it->second;
    if (empty && !kept && it->second <= wire::kLeaseBytes) {
      kept = true;
      empty = false;
    }
    if (!empty) {
      ++it;
      continue;
    }
    return_(it->first, it->second);
    gaps_[it->first] = it->second;
    free_.erase(f);
    it = leases_.erase(it);
  }
}

CUresult Heap::allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at) {
  uint64_t need = round_up(bytes, kAlign);
  if (need < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock lock(mutex_);
  settle();
  if (take(need, at)) return CUDA_SUCCESS;
  if (grow(need) && take(need, at)) return CUDA_SUCCESS;
  if (!pending_.empty()) {
    lock.unlock();
    drain();
    lock.lock();
    settle();
    if (take(need, at)) return CUDA_SUCCESS;
  }
  return_empty_leases();  // small empty blocks may make room for one large
  for (auto it = leases_.begin(); it != leases_.end();) {
    auto f = free_.find(it->first);
    if (f == free_.end() || f->second != it->second) {
      ++it;
      continue;
    }
    return_(it->first, it->second);
    gaps_[it->first] = it->second;
    free_.erase(f);
    it = leases_.erase(it);
  }
  return grow(need) && take(need, at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Heap::release(uint64_t at, uint64_t bytes, Done done) {
  uint64_t n = round_up(bytes, kAlign);
  std::lock_guard lock(mutex_);
  allocated_ -= n;
  pending_.push_back({at, n, std::move(done)});
  settle();
  return_empty_leases();
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
