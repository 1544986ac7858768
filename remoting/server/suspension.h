// Suspends a session: waits for the end of its work, moves its device memory to host memory, and
// back when a record comes. The launcher decides about both. ADR 84.
//
// Thread safety: request(), request_resumption() and the functions that are const are for any
// thread; the others are for the executor. No member waits: thread `memory` does the work.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "server/memory_image.h"

namespace busbar::server {

struct Pipeline;

class Suspension {
 public:
  explicit Suspension(Pipeline& pipeline);

  // Asks for a suspension. It is abandoned when work is under way for longer than `patience_ms`, or
  // when there are more than `host_bytes` to save.
  void request(uint32_t patience_ms, uint64_t host_bytes);
  // Asks for the memory before there is a record.
  void request_resumption() { resumption_requested_ = true; }

  // False in a session that is not being suspended, which costs one load.
  bool active() const { return phase_.load(std::memory_order_acquire) != Phase::running; }
  bool is_draining() const { return phase_ == Phase::draining; }
  bool is_suspended() const { return phase_ == Phase::suspended; }
  // True while no work may begin, because the session waits for the end of its work.
  bool keeps_work() const;
  // True while no parked record may run: its memory may be away.
  bool has_drained() const { return active() && !is_draining(); }

  // True while records of the client must not run. With `has_records` a suspended session is
  // resumed.
  bool holds(bool has_records);
  // Returns at most `most`, and not more than the time until the suspension is abandoned.
  int wait_ms(int most) const;
  // Waits until the work of thread `memory` has ended, for at most `timeout_ms`.
  void wait_for_change(int timeout_ms);

 private:
  enum class Phase : uint32_t { running, draining, saving, suspended, resuming };
  void begin_requested();
  bool drain();
  const char* pending_work() const;
  bool may_hold_while_draining() const;
  void abandon(const std::string& reason);
  void post(void (Suspension::*work)());
  void save();
  void resume();
  void enter(Phase phase);
  [[noreturn]] void fail(const char* step, CUresult error);

  Pipeline& p_;
  MemoryImage image_;
  std::atomic<Phase> phase_{Phase::running};
  std::atomic<bool> requested_{false};  // a suspension, which has not begun
  std::atomic<bool> resumption_requested_{false};
  std::atomic<uint64_t> host_bytes_{0};
  std::atomic<int64_t> deadline_ms_{0};  // of transport::now_ms()
  std::mutex mutex_;                     // for changed_
  std::condition_variable changed_;
};

}  // namespace busbar::server
