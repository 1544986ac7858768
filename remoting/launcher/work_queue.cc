#include "launcher/work_queue.h"

#include <thread>
#include <tuple>

namespace busbar::launcher {

bool WorkQueue::submit(const std::string& holder, std::function<void()> job) {
  MutexLock lock(mutex_);
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
    MutexLock lock(mutex_);
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

bool WorkQueue::goes_before(const Holder& one, const Holder& other) {
  return std::tie(one.running, one.turn) < std::tie(other.running, other.turn);
}

// Takes the newest job of the holder with the fewest threads.
bool WorkQueue::take_next(Job& job) {
  auto next = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const Holder& holder = holders_[it->holder];
    if (!may_run(holder)) continue;
    if (next == waiting_.end() || it->holder == next->holder ||
        goes_before(holder, holders_[next->holder]))
      next = it;
  }
  if (next == waiting_.end()) return false;
  job = std::move(*next);
  waiting_.erase(next);
  Holder& holder = holders_[job.holder];
  --holder.waiting;
  ++holder.running;
  holder.turn = ++turns_;
  return true;
}

}  // namespace busbar::launcher
