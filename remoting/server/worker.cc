#include "server/worker.h"

#include <chrono>

namespace busbar::server {

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::post(CUcontext context, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  work_.emplace_back(context, std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Worker::finish(int timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [&] { return work_.empty() && !running_; });
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    auto [context, work] = std::move(work_.front());
    work_.pop_front();
    running_ = true;
    lock.unlock();
    if (context) cu_.cuCtxSetCurrent(context);
    work();
    work = nullptr;
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace busbar::server
