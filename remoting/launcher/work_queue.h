// Threads for connections whose client has proved its key. Each holder has a limit of threads, so
// that connections of one tenant, which may stall, do not delay those of others. A free thread goes
// to the holder that has the fewest, and to its newest connection.
//
// Thread safety: any thread. Jobs run without the mutex.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>

#include "mutex.h"

namespace busbar::launcher {

class WorkQueue {
 public:
  struct Limits {
    size_t threads, threads_by_holder, waiting_by_holder;
  };
  explicit WorkQueue(Limits limits) : limits_(limits) {}

  // Runs the job on a thread, now or when one is free. Returns false if too many jobs of the holder
  // wait.
  bool submit(const std::string& holder, std::function<void()> job);

 private:
  struct Job {
    std::string holder;
    std::function<void()> run;
  };
  struct Holder {
    size_t running = 0, waiting = 0;
    uint64_t turn = 0;  // its last one
  };
  void run_jobs(Job job);
  bool may_run(const Holder& holder) const;
  static bool goes_before(const Holder& one, const Holder& other);
  bool take_next(Job& job) REQUIRES(mutex_);
  const Limits limits_;
  Mutex mutex_;
  size_t threads_ GUARDED_BY(mutex_) = 0;
  uint64_t turns_ GUARDED_BY(mutex_) = 0;
  std::list<Job> waiting_ GUARDED_BY(mutex_);
  std::map<std::string, Holder> holders_ GUARDED_BY(mutex_);
};

}  // namespace busbar::launcher
