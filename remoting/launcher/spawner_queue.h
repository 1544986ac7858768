// Order of the requests to the spawner, which serves one after the other, and of those that take a
// spare of the same GPUs. Tenants go in turn, each with the request that waits longest, so that one
// that opens sessions without end makes each request of another tenant wait for one of its own.
// WorkQueue limits the threads of a tenant, and so the requests that wait here.
//
// Thread safety: any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "mutex.h"

namespace busbar::launcher {

class SpawnerQueue {
 public:
  // Blocks until the request of a tenant may be sent. False if that takes longer than `patience`:
  // the request must not be sent then.
  bool enter(const std::string& tenant, std::chrono::milliseconds patience);
  // Lets the next request go, after an enter() that returned true.
  void leave();
  // Returns the number of requests that wait.
  size_t waiting();

 private:
  struct Request {
    std::condition_variable called;
    bool is_served = false;
  };
  Mutex mutex_;
  bool is_busy_ GUARDED_BY(mutex_) = false;  // a request has entered and not left
  std::string served_ GUARDED_BY(mutex_);    // tenant of the newest one that entered
  // Those that wait, by tenant; none is empty.
  std::map<std::string, std::list<Request>> requests_ GUARDED_BY(mutex_);
};

}  // namespace busbar::launcher
