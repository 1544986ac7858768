// Suspension of sessions: the decisions of the launcher. The states are in the ledgers. ADR 84.
#include <algorithm>

#include "control/hex.h"
#include "control/log.h"
#include "launcher/sessions.h"
#include "transport/clock.h"

namespace busbar::launcher {

using control::hex;
using control::Suspension;

namespace {
// Time that a session has beside the wait for its work: the copy, with this many bytes in each
// millisecond at least, and the rest.
constexpr uint64_t kBytesEachMs = 64 << 10;
constexpr int64_t kAnswerMs = 10'000;
constexpr uint32_t kMostWaitMs = 600'000;
}  // namespace

// The lock is not held while the session is told.
std::optional<Session> Sessions::find_running(const uint8_t* id) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(hex(id, 16));
  if (it == sessions_.end() || it->second.record.state != (uint32_t)control::SessionState::running)
    return std::nullopt;
  return it->second;
}

std::string Sessions::suspend(const control::SuspendSession& request) {
  auto s = find_running(request.id);
  if (!s) return "no such session runs";
  Account account = account_of(*s);
  int64_t copy_ms = 0;
  for (uint64_t bytes : ledgers_.charged_by(account)) copy_ms += (int64_t)(bytes / kBytesEachMs);
  control::SuspendRequest told{std::min(request.wait_ms, kMostWaitMs), 0, 0};
  int64_t deadline_ms = transport::now_ms() + told.wait_ms + copy_ms + kAnswerMs;
  std::string reason = ledgers_.begin_suspension(account, settings_.suspended_bytes, deadline_ms);
  told.host_bytes = ledgers_.suspension_of(account).host_bytes;
  if (reason.empty() &&
      !post_request(address_of(*s), control::Kind::suspend_memory, &told, sizeof told)) {
    reason = "the session cannot be told";
    ledgers_.abandon_suspension(account, reason);
  }
  control::log_line("launcher", reason.empty() ? "suspension begun" : "suspension refused",
                    hex(request.id, 16), reason);
  return reason;
}

std::string Sessions::resume(const uint8_t* id) {
  auto s = find_running(id);
  if (!s) return "no such session runs";
  auto state = (Suspension)ledgers_.suspension_of(account_of(*s)).state;
  if (state != Suspension::suspended) return "the session is not suspended";
  bool told = post_request(address_of(*s), control::Kind::resume_memory, nullptr, 0);
  return told ? "" : "the session cannot be told";
}

std::vector<control::SuspensionRecord> Sessions::suspensions(control::SuspensionList& head) {
  std::vector<control::SuspensionRecord> list;
  {
    MutexLock lock(mutex_);
    for (auto& [id, s] : sessions_) {
      auto shown = ledgers_.suspension_of(account_of(s));
      if (shown.state || *shown.reason) list.push_back(shown);
    }
  }
  head = {settings_.suspended_bytes, ledgers_.host_bytes(), (uint32_t)list.size(), 0};
  return list;
}

// Leaves sessions running that have not answered, and answers those whose memory is free now.
void Sessions::watch_suspensions() {
  for (auto& id : ledgers_.abandon_late_suspensions(transport::now_ms()))
    control::log_line("launcher", "session left running", hex(id.data(), 16),
                      "it did not answer the suspension in time");
  ledger_port_.serve_waiting();
}

}  // namespace busbar::launcher
