// A mutex that threads get in the order in which they ask for it. A thread that takes it without
// end, because sessions send without end, makes each other thread wait once.
//
// Thread safety: any thread.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace busbar::launcher {

class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    uint64_t mine = next_++;
    served_.wait(lock, [&] { return mine == serving_; });
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    ++serving_;
    served_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable served_;
  uint64_t next_ = 0, serving_ = 0;  // threads that have asked, and that have returned it
};

}  // namespace busbar::launcher
