// A thread that runs handlers which may block for long, one after the other.
//
// Thread safety: post() may be called from any thread. The thread starts with the first call. The
// destructor runs everything that was posted, then joins.
#pragma once
#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/driver.h"

namespace busbar::server {

class Worker {
 public:
  explicit Worker(Driver& cu) : cu_(cu) {}
  ~Worker();
  // Runs `work` with `context` current (null: none).
  void post(CUcontext context, std::function<void()> work);

 private:
  void run();
  Driver& cu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<CUcontext, std::function<void()>>> work_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace busbar::server
