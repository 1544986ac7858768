#include "server/worker.h"

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
  changed_.notify_one();
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    auto [context, work] = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    if (context) cu_.cuCtxSetCurrent(context);
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace busbar::server
