#include "softgpu/device/heap.h"

#include <algorithm>

#include "checked_size.h"
#include "softgpu/device/arena.h"

namespace softgpu {

uint64_t KernelHeap::allocate(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!base_) {
    base_ = map_private(limit_);
    if (base_) free_[base_] = limit_;
  }
  if (bytes > limit_) return 0;
  uint64_t need = std::max<uint64_t>(CheckedSize(bytes).rounded_up(16).value(), 16);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < need) continue;
    auto [at, room] = *it;
    free_.erase(it);
    if (room > need) free_[at + need] = room - need;
    used_[at] = need;
    return at;
  }
  return 0;
}

void KernelHeap::release(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto it = used_.find(address);
  if (it == used_.end()) return;
  auto [at, bytes] = *it;
  used_.erase(it);
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free_[at] = bytes;
}

}  // namespace softgpu
