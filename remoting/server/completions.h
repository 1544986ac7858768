// Publishes what the GPU has finished. The truth is a CUDA event; the client reads a counter.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "server/session.h"

namespace busbar::server {

// Bytes for the client, to be sent before the counter that announces them.
struct Delivery {
  uint64_t transfer = 0, offset = 0;
  Pinned staging;
  uint64_t bytes = 0;
  int chunk = -1;
};  // chunk: of shared memory, instead of staging

struct Mark {
  CUevent event = nullptr;
  uint32_t context = 0, stream = 0;
  uint64_t position = 0;
  std::vector<Delivery> deliveries;
  std::vector<Pinned> consumed;  // staging of host-to-device copies; its bytes become credit
  uint64_t consumed_bytes = 0;
  std::vector<uint32_t> consumed_chunks;  // of shared memory
  uint64_t host_function = 0;
};

class Completions {
 public:
  Completions(Session& session, std::function<void()> wake) : s_(session), wake_(std::move(wake)) {}
  ~Completions();

  // Nobody is woken: the executor looks by itself for a while, then says settle().
  void add(Mark m);
  // Nobody waits for it any more: its buffers go back.
  void drop(Mark& m);
  // Publishes what is done. From the executor, between records; cheap when nothing is pending.
  void poll();
  // The executor will not look any more: a thread takes over what is pending. It begins when it is
  // first needed.
  void settle();
  // The first asynchronous error; every counter that follows carries it.
  void fail(CUresult error, uint64_t position);
  CUresult error();
  void stop();
  bool idle() const { return !pending_count_.load(std::memory_order_relaxed); }
  // Events that may be used again, of one context.
  std::vector<CUevent> recycled(uint32_t context);

 private:
  void run();
  using Heads = std::map<uint32_t, std::deque<Mark>>;  // by stream
  bool done(const Mark& m);
  Heads::iterator first_done();
  bool poll_heads(std::unique_lock<std::mutex>& lock);
  void publish(Mark& m, CUresult error);
  Session& s_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable added_;
  Heads pending_;
  std::atomic<uint32_t> pending_count_{0};
  std::map<uint32_t, std::vector<CUevent>> recycled_;
  CUresult error_ = CUDA_SUCCESS;
  uint64_t error_position_ = 0;
  bool stopping_ = false, publishing_ = false;
  std::thread thread_;
};

}  // namespace busbar::server
