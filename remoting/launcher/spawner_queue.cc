#include "launcher/spawner_queue.h"

namespace busbar::launcher {

bool SpawnerQueue::enter(const std::string& tenant, std::chrono::milliseconds patience) {
  MutexLock lock(mutex_);
  if (!is_busy_) {
    is_busy_ = true;
    served_ = tenant;
    return true;
  }
  auto& of_tenant = requests_[tenant];
  auto mine = of_tenant.emplace(of_tenant.end());
  mine->called.wait_for(lock, patience, [&] { return mine->is_served; });
  bool is_served = mine->is_served;
  of_tenant.erase(mine);
  if (of_tenant.empty()) requests_.erase(tenant);
  return is_served;
}

void SpawnerQueue::leave() {
  MutexLock lock(mutex_);
  auto next = requests_.upper_bound(served_);
  if (next == requests_.end()) next = requests_.begin();
  is_busy_ = next != requests_.end();
  if (!is_busy_) return;
  served_ = next->first;
  next->second.front().is_served = true;
  next->second.front().called.notify_one();
}

size_t SpawnerQueue::waiting() {
  MutexLock lock(mutex_);
  size_t count = 0;
  for (auto& [tenant, requests] : requests_) count += requests.size();
  return count;
}

}  // namespace busbar::launcher
