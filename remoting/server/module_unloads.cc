#include "server/module_unloads.h"

namespace busbar::server {

void ModuleUnloads::begin() {
  std::lock_guard lock(mutex_);
  ++begun_;
}

void ModuleUnloads::end() {
  std::unique_lock lock(mutex_);
  ++ended_;
  while (!waiting_.empty() && waiting_.front().first <= ended_) {
    auto work = std::move(waiting_.front().second);
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void ModuleUnloads::run_after_begun(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (ended_ < begun_) {
      waiting_.emplace_back(begun_, std::move(work));
      return;
    }
  }
  work();
}

}  // namespace busbar::server
