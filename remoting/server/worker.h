// Threads that run handlers which may block for long. Each runs its work one after the other.
//
// Thread safety: post() may be called from any thread. A thread starts with the first call. The
// destructor runs everything that was posted, then joins.
#pragma once
#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/driver.h"
#include "wire/opcodes.h"

namespace busbar::server {

class Worker {
 public:
  explicit Worker(Driver& cu) : cu_(cu) {}
  ~Worker();
  // Runs `work` with `context` current (null: none).
  void post(CUcontext context, std::function<void()> work);
  // Waits until everything that was posted has run, for at most `timeout_ms`.
  void finish(int timeout_ms);

 private:
  void run();
  Driver& cu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<CUcontext, std::function<void()>>> work_;
  bool running_ = false, stopping_ = false;
  std::thread thread_;
};

// The helper threads of a session. The executor never waits for one of them, and none of them waits
// for another (ADR 56).
struct Workers {
  explicit Workers(Driver& cu) : code(cu), memory(cu), synchronize(cu) {}
  // The thread of an operation that does not run on the executor.
  Worker& of(wire::Thread thread) { return thread == wire::Thread::memory ? memory : code; }
  Worker code;         // loads and unloads code
  Worker memory;       // allocates and frees memory, which may wait for all work of the GPU
  Worker synchronize;  // waits for work of the GPU and for nothing else
};

}  // namespace busbar::server
