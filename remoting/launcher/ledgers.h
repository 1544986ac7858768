// The ledgers of all allocations of this node.
//
// Thread safety: any thread; mutex_ is held for no other lock, and for no wait but that for the
// file system.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "launcher/fair_mutex.h"
#include "launcher/ledger.h"

namespace busbar::launcher {

// A session and the ledger that charges it.
struct Account {
  std::string allocation;  // in hexadecimal
  SessionId session{};
};

class Ledgers {
 public:
  // `folder` holds one file for each allocation.
  explicit Ledgers(std::string folder) : folder_(std::move(folder)) {}

  // Sets the limits of an allocation. Opens its ledger if necessary; false if that fails.
  bool set_limits(const std::string& allocation, const uint64_t* bytes, uint32_t partitions,
                  const uint64_t* context_bytes = nullptr);
  // Other allocations may charge nothing more. Their ledgers go with their last session.
  void keep(const std::function<bool(const std::string&)>& is_granted);

  // See Ledger.
  bool add(const Account& a, uint32_t server_pid, uint32_t client_pid, int pidfd) {
    return call(a, &Ledger::add, server_pid, client_pid, pidfd);
  }
  void end(const Account& a) { call(a, &Ledger::end); }
  void remove(const Account& account);
  void remove_others(const std::function<bool(const SessionId&)>& is_known);
  bool apply(const Account& a, const control::LedgerRequest& r, control::LedgerAnswer& answer) {
    return call(a, &Ledger::apply, r, answer);
  }
  std::array<uint64_t, wire::kMaxDevices> charged_by(const Account& a) {
    return call(a, &Ledger::charged_by);
  }
  // Returns what an allocation holds of each of its first partitions.
  std::array<uint64_t, wire::kMaxDevices> held(const std::string& allocation, uint32_t partitions);
  std::string refused_calls(const Account& a) { return call(a, &Ledger::refused_calls); }
  bool send_page(const Account& a, int socket) { return call(a, &Ledger::send_page, socket); }

  // ---- suspension, see Ledger ----
  // `budget` is the host memory for the suspended sessions of this node.
  std::string begin_suspension(const Account& account, uint64_t budget, int64_t deadline_ms);
  void abandon_suspension(const Account& a, const std::string& reason) {
    call(a, &Ledger::abandon_suspension, reason);
  }
  std::vector<SessionId> abandon_late_suspensions(int64_t now_ms);
  uint64_t host_bytes();
  control::SuspensionRecord suspension_of(const Account& a) {
    return call(a, &Ledger::suspension_of);
  }

  // ---- unused memory of sessions, see Ledger ----
  std::vector<SessionId> take_asked(const std::string& allocation, int64_t until_ms);
  void note_returned(const Account& a) { call(a, &Ledger::note_returned); }
  bool expire_asked(int64_t now_ms);  // of all allocations

 private:
  struct Entry {
    std::unique_ptr<Ledger> ledger;
    bool granted = true;
  };
  // Calls a function of the session's ledger. Without a ledger, the result is 0 or empty.
  template <typename Function, typename... Args>
  auto call(const Account& a, Function function, Args&&... args)
      -> std::invoke_result_t<Function, Ledger&, const SessionId&, Args...> {
    FairLock lock(mutex_);
    Ledger* ledger = find(a.allocation);
    using Result = std::invoke_result_t<Function, Ledger&, const SessionId&, Args...>;
    return ledger ? (ledger->*function)(a.session, std::forward<Args>(args)...) : Result();
  }
  Ledger* find(const std::string& allocation) REQUIRES(mutex_);
  uint64_t all_host_bytes() const REQUIRES(mutex_);
  void remove_unused(const std::string& allocation) REQUIRES(mutex_);
  std::string path_of(const std::string& allocation) const { return folder_ + "/" + allocation; }
  const std::string folder_;
  FairMutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);  // by allocation
};

}  // namespace busbar::launcher
