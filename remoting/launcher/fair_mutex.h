// A mutex that threads get in the order in which they ask for it. A thread that takes it without
// end, because sessions send without end, makes each other thread wait once.
//
// Thread safety: any thread.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "thread_annotations.h"

namespace busbar::launcher {

class CAPABILITY("mutex") FairMutex {
 public:
  void lock() ACQUIRE() {
    std::unique_lock lock(mutex_);
    uint64_t mine = next_++;
    served_.wait(lock, [&] { return mine == serving_; });
  }
  void unlock() RELEASE() {
    std::lock_guard lock(mutex_);
    ++serving_;
    served_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable served_;
  uint64_t next_ = 0, serving_ = 0;  // threads that have asked, and that have returned it
};

class SCOPED_CAPABILITY FairLock {
 public:
  explicit FairLock(FairMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~FairLock() RELEASE() { mutex_.unlock(); }
  FairLock(const FairLock&) = delete;

 private:
  FairMutex& mutex_;
};

}  // namespace busbar::launcher
