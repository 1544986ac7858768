// The account of this session with the launcher, which decides what the session may charge. ADR 58.
//
// Requests are sent one after the other by a thread of this class. While no launcher runs they
// wait, and the next launcher gets them.
//
// Thread safety: any thread; mutex_ guards everything but the atomics. reserve(),
// open_context() and wait_until_answered() wait for the launcher, so the executor calls none.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/ledger_messages.h"
#include "wire/nvml_sample.h"

namespace busbar::server {

class Account {
 public:
  // Time that a charge waits for a launcher.
  static constexpr std::chrono::seconds kPatience{60};
  // Time that send_last_names() gives a launcher.
  static constexpr std::chrono::seconds kLastNames{1};

  // `limits` of the partitions hold until the launcher shows its page.
  explicit Account(std::vector<uint64_t> limits, std::chrono::milliseconds patience = kPatience);
  ~Account();
  Account(const Account&) = delete;

  // Replaces the connection to the launcher. Takes over the socket.
  void connect(int socket);

  // Charges memory. Without room, `asks` asks the other sessions for what they do not use. False,
  // and nothing is charged, if the limit would be exceeded or no launcher answers within kPatience.
  bool reserve(uint32_t partition, uint64_t bytes, bool asks = true);
  // Says that this session has released what it does not use, because the launcher asked.
  void confirm_return() { post(control::LedgerOp::returned); }
  // Charges the context of this session on a device, which lasts as long as the session. Waits as
  // reserve() does.
  bool open_context(uint32_t partition);
  // Releases what was granted. The values of this session show it at once.
  void release(uint32_t partition, uint64_t bytes);
  // ---- suspension (ADR 84) ----
  // Says that the memory of this session is saved and released. Waits for a launcher. False: it
  // must be restored, because no launcher waits for this.
  bool confirm_suspension();
  // Charges memory. Waits until it is free, and for a launcher.
  void reserve_when_free(uint32_t partition, uint64_t bytes);
  // Say that the memory is as it was: after a suspension, or because of `reason` instead of one.
  void confirm_resumption() { post(control::LedgerOp::resumed); }
  void keep_memory(const std::string& reason) { post(control::LedgerOp::kept, reason); }
  // Records the name of an unsupported call.
  void add_refused_call(const std::string& name) { post(control::LedgerOp::refused_call, name); }
  // Waits, for kLastNames at most, until a launcher that is connected has these names: it lists
  // them also after the session. For the end of the process, which runs no destructor.
  void send_last_names();

  void wait_until_answered();  // blocks until no request is under way; for tests

  // ---- values ----
  uint64_t limit(uint32_t partition) const;
  uint64_t charged(uint32_t partition) const;  // by all sessions of the allocation
  uint64_t charged_here(uint32_t partition) const { return charged_here_[partition]; }
  bool has_session(pid_t pid) const;  // true if it is a session server of this allocation
  uint32_t own_session() const;       // pid of this session server for the launcher; 0: unknown
  std::vector<wire::NvmlProcess> processes(uint32_t partition) const;  // programs and their charges

 private:
  struct Connection;
  struct Request {
    control::LedgerRequest message;
    std::optional<bool>* granted;  // null: no caller waits, and what is granted is released
  };
  enum class Patience { bounded, endless };
  void enqueue(control::LedgerRequest message, std::optional<bool>* granted);
  void post(control::LedgerOp op, const std::string& text = "");
  bool request(control::LedgerOp op, uint32_t partition, uint64_t bytes, Patience patience);
  void run();
  void finish(const control::LedgerAnswer& answer);
  bool has_refused_call() const;
  std::shared_ptr<const Connection> connection() const;

  const std::vector<uint64_t> limits_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Connection> connection_;  // null: no launcher
  std::shared_ptr<const Connection> shown_;       // the newest one with a page
  std::deque<Request> requests_;                  // the first one may be under way
  uint64_t last_sequence_ = 0;
  bool stopping_ = false;
  std::array<std::atomic<uint64_t>, wire::kMaxDevices> charged_here_{};
  std::thread thread_;
};

}  // namespace busbar::server
