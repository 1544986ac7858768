#include "launcher/work_queue.h"

#include <algorithm>
#include <thread>

namespace busbar::launcher {

bool WorkQueue::submit(const std::string& holder, std::function<void()> job) {
  std::lock_guard lock(mutex_);
  Holder& entry = holders_[holder];
  if (threads_ < limits_.threads && may_run(entry)) {
    ++threads_;
    ++entry.running;
    std::thread([this, first = Job{holder, std::move(job)}]() mutable {
      run_jobs(std::move(first));
    }).detach();
    return true;
  }
  if (entry.waiting >= limits_.waiting_by_holder) return false;
  ++entry.waiting;
  waiting_.push_back({holder, std::move(job)});
  return true;
}

void WorkQueue::run_jobs(Job job) {
  for (;;) {
    job.run();
    job.run = nullptr;
    std::lock_guard lock(mutex_);
    auto holder = holders_.find(job.holder);
    --holder->second.running;
    if (!holder->second.running && !holder->second.waiting) holders_.erase(holder);
    if (take_next(job)) continue;
    --threads_;
    return;
  }
}

bool WorkQueue::may_run(const Holder& holder) const {
  return holder.running < limits_.threads_by_holder;
}

// Takes the oldest job whose holder may run another one. Requires mutex_.
bool WorkQueue::take_next(Job& job) {
  auto next =
      std::ranges::find_if(waiting_, [this](const Job& j) { return may_run(holders_[j.holder]); });
  if (next == waiting_.end()) return false;
  job = std::move(*next);
  waiting_.erase(next);
  Holder& holder = holders_[job.holder];
  --holder.waiting;
  ++holder.running;
  return true;
}

}  // namespace busbar::launcher
