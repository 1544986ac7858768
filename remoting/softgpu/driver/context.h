// Contexts, and the stack of contexts of each thread.
//
// Thread safety: Context::mutex guards the streams and events of a context. Lock order: a
// Context::mutex before Driver::mutex.
#pragma once
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "softgpu/driver/driver.h"
#include "softgpu/driver/stream.h"

namespace softgpu {

// A thread that waits for a ready stream. The one that was busy last is called first: it and the
// workers of grids have processors of their own. Another one may be on the processor of a worker.
struct FreeThread {
  std::condition_variable called;
  bool is_called = false;
  void call() {
    is_called = true;
    called.notify_one();
  }
};

struct Context {
  DeviceState* device = nullptr;
  unsigned flags = 0;
  uint64_t id = 0;
  bool primary = false;
  std::atomic<bool> destroyed{false};  // the object itself is never freed
  std::atomic<int> attached{1};        // by cuCtxCreate and cuCtxAttach
  std::mutex mutex;
  std::condition_variable changed;            // a stream has completed what is awaited of it
  std::vector<StreamRef> streams;             // the legacy stream first
  std::deque<StreamRef> ready;                // streams whose next operation may start
  std::vector<FreeThread*> free_threads;      // the one that was busy last at the end
  size_t arriving = 0;                        // threads that will look for a ready stream
  std::atomic<CUresult> error{CUDA_SUCCESS};  // the first one; sticky
  std::map<std::thread::id, StreamRef> per_thread;
  // By CUlimit: stack bytes of a thread, printf buffer bytes, heap bytes, …
  size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
};

std::vector<Context*>& context_stack();  // of the calling thread
Context* current();                      // the top of the stack, or null
// Get the current context. Return an error if the driver is not initialised, there is no current
// context, or it is destroyed or has a sticky error.
CUresult current_context(Context*& c);

}  // namespace softgpu
