// The turns of a session on its GPUs: the connection to the launcher's arbiters, and a gate for
// each partition. ADR 83.
//
// When the launcher ends, or shows no beat on the page for kSilence because it is stopped, work
// that needs turns runs without for kUnenforced, and then waits for the next launcher or beat.
// Without a launcher no further session can come, so work that needs no turns goes on.
//
// Thread safety: any thread; the gates are for the executor. mutex_ guards the connection. send()
// never blocks.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "server/turn_gate.h"

namespace busbar::server {

// Looks at a gate at every tick of a turn, and suggests the end of the turn if nothing was
// submitted or pending since the last one.
class GateWatch {
 public:
  bool tick(TurnGate& gate);  // true if it did

 private:
  uint32_t submissions_ = 0;
};

class Turns {
 public:
  static constexpr std::chrono::seconds kUnenforced{2};
  static constexpr std::chrono::seconds kSilence{1};

  explicit Turns(uint32_t partitions, std::chrono::milliseconds unenforced = kUnenforced);
  Turns(const Turns&) = delete;

  // `wake` is called when a gate may have changed, from any thread. Set before the executor runs.
  void set_wake(std::function<void()> wake);
  // Replaces the connection to the launcher. Takes over the socket.
  void connect(int socket);

  TurnGate* gate(uint32_t partition) { return &gates_[partition]; }
  // Of TurnGate, for the thread `memory`.
  void begin_outside(uint32_t partition);
  void end_outside(uint32_t partition);
  // Members of the executor: of all gates.
  void begin_pass();
  void end_pass();
  bool is_draining() const;
  bool may_stall() const;
  // True once after a change of the page.
  bool take_changed() {
    return changed_.load(std::memory_order_relaxed) && changed_.exchange(false);
  }

 private:
  struct Connection;
  static bool send(void* turns, const control::TurnNotice& notice);
  void run(const std::shared_ptr<Connection>& connection);
  bool wait_for_change(Connection& connection);
  void look_at_gates(Connection& connection);
  void use_page(Connection& connection);
  void lose(const std::shared_ptr<Connection>& connection, const char* reason);
  void use_again(Connection& connection);
  bool is_current(const std::shared_ptr<Connection>& c) const { return connection_ == c; }
  void wake();

  const std::chrono::milliseconds unenforced_;
  std::deque<TurnGate> gates_;
  std::atomic<bool> changed_{false};
  std::mutex mutex_;
  std::condition_variable replaced_;
  std::function<void()> wake_;
  std::shared_ptr<Connection> connection_;  // the newest one; it may have ended
};

}  // namespace busbar::server
