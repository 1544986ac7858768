// Publishes completed work to the client. A completion fence is a driver event; when it has
// completed, the client receives the data of the copies before it, then the position of the stream.
//
// If the client does not read, nothing is published. Work ends all the same, and the gate of its
// GPU and the stream that waits for it are notified.
//
// Thread safety: any thread. `mutex_` guards all members; it is released while a fence is
// published, because the socket may be slow. One fence is published at a time, which keeps the
// order of a stream. poll() never blocks on the lock.
#pragma once
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "server/session.h"

namespace busbar::server {

// Bytes for the client, sent before the completion that announces them.
struct Delivery {
  uint64_t transfer = 0;
  uint64_t offset = 0;
  PinnedBuffer buffer;
  uint64_t bytes = 0;
  int chunk = -1;  // chunk of shared memory in place of a buffer of the pool
};

struct CompletionFence {
  CUevent event = nullptr;
  uint32_t context = 0;
  uint32_t stream = 0;
  uint64_t position = 0;
  std::shared_ptr<StreamUse> use;  // of the stream
  uint64_t submitted = 0;          // records of the stream before the fence, since its start
  TurnGate* gate = nullptr;        // of the GPU; null: no work of it ends at the fence
  WorkBatch work;                  // for the gate
  std::vector<Delivery> deliveries;
  std::vector<PinnedBuffer> consumed;     // sources of host-to-device copies
  uint64_t consumed_bytes = 0;            // bulk bytes, returned to the client as credit
  std::vector<uint32_t> consumed_chunks;  // of shared memory
  uint64_t host_function = 0;             // to be called by the client; 0: none
  bool ends_hold = false;                 // the records of the stream behind it wait for it
};

class Completions {
 public:
  explicit Completions(Session& session) : s_(session) {}
  ~Completions();

  // Adds a pending fence. Wakes no thread: the executor polls, and calls watch_in_background()
  // before it sleeps.
  void add(CompletionFence fence);
  // Returns the chunks of a fence that is not published.
  void discard(CompletionFence& fence);
  // Publishes completed fences unless the client has too much to read. Cheap when nothing is
  // pending. Returns true if a fence was
  // published, or work has ended for which a gate or a stream waits.
  bool poll();
  // Starts the threads that publish what is pending, or wakes them. With `wake_executor`, the
  // executor is woken after each publication, until the next call.
  void watch_in_background(bool wake_executor);
  uint64_t progress() const { return progress_; }  // counts what poll() returns true for
  // Records an asynchronous error. The first one is part of every later completion.
  void fail(CUresult error);
  CUresult error();
  bool idle() const { return !pending_count_.load(std::memory_order_relaxed); }
  // Removes and returns the events of published fences of a context.
  std::vector<CUevent> take_idle_events(uint32_t context);
  // Returns the streams of the completed fences with `ends_hold` since the last call.
  std::vector<uint32_t> take_ended_holds();
  void stop();  // joins the threads

 private:
  using Pending = std::map<uint32_t, std::deque<CompletionFence>>;  // by stream
  void run();
  void run_beside();
  bool has_work_of_turns() const;
  bool others_pending() const;
  bool completed(const CompletionFence& fence);
  bool is_running(const CompletionFence& fence) const;
  bool end_running();
  bool may_block() const;
  bool cannot_publish() const { return publishing_ || !s_.link.has_room(); }
  bool has_work_to_end() const;
  bool end_work();
  void end_work(const CompletionFence& fence);
  bool advance(std::unique_lock<std::mutex>& lock);
  bool end_work_of(std::deque<CompletionFence>& fences);
  void release(const CompletionFence& fence);
  Pending::iterator first_completed();
  bool publish_completed(std::unique_lock<std::mutex>& lock);
  void wait_for_progress(std::unique_lock<std::mutex>& lock);
  void publish(CompletionFence& fence, CUresult error);
  void deliver(const Delivery& d, CUresult error, uint64_t& bulk_total);
  Session& s_;
  std::mutex mutex_;
  std::condition_variable added_;
  Pending pending_;
  std::atomic<uint32_t> pending_count_{0};                // with running_
  std::map<uint32_t, std::vector<CUevent>> idle_events_;  // by context
  std::vector<uint32_t> ended_holds_;                     // streams
  std::atomic<bool> has_ended_holds_{false};
  // Published because of an error, while their work of a turn still runs.
  std::vector<CompletionFence> running_;
  CUresult error_ = CUDA_SUCCESS;
  bool stopping_ = false;
  bool publishing_ = false;
  bool is_watched_ = false;    // `thread_` publishes what is pending
  CUevent awaited_ = nullptr;  // `thread_` waits for this event in the driver and sees no other
  std::atomic<uint64_t> progress_{0};
  std::atomic<bool> wake_executor_{false};
  std::thread thread_;
  std::thread beside_;  // polls the fences of other streams while `thread_` waits in the driver,
                        // and all fences with work to end while it waits for the client
};

}  // namespace busbar::server
