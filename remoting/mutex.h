// std::mutex and its lock, with annotations (thread_annotations.h).
//
// Thread safety: a mutex is for any thread, a lock for its own.
#pragma once
#include <mutex>

#include "thread_annotations.h"

namespace busbar {

class CAPABILITY("mutex") Mutex : public std::mutex {
 public:
  void lock() ACQUIRE() { std::mutex::lock(); }
  bool try_lock() TRY_ACQUIRE(true) { return std::mutex::try_lock(); }
  void unlock() RELEASE() { std::mutex::unlock(); }
};

class SCOPED_CAPABILITY MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : unique_lock(mutex) {}
  ~MutexLock() RELEASE() {}
  void lock() ACQUIRE() { unique_lock::lock(); }
  void unlock() RELEASE() { unique_lock::unlock(); }
};

// Releases a mutex until the end of its scope, also if that ends by an exception or with the
// thread.
class SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() RELEASE() { mutex_.lock(); }  // that is, of the scope
  MutexUnlock(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace busbar
