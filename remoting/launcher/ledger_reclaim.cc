// Requests that wait for memory, and sessions that are asked for what they do not use. ADR 5.
#include <algorithm>

#include "checked_size.h"
#include "launcher/ledger.h"

namespace busbar::launcher {

using control::LedgerOp;
using control::LedgerRequest;
using control::Suspension;

// True if the next request of a session asks for memory that is not free yet.
bool Ledger::must_wait(Slot& s, const LedgerRequest& request) {
  s.waits = false;
  uint32_t p = request.partition;
  if (request.sequence != s.record.sequence + 1 || p >= wire::kMaxDevices) return false;
  auto op = (LedgerOp)request.op;
  if (op == LedgerOp::resume)
    s.waits = request.bytes > room(p, contexts(p));
  else if (op == LedgerOp::reclaim)
    s.waits = !has_room(s, request) && may_ever_fit(s, request) && awaits_others(s, request);
  else if (op == LedgerOp::open_context)
    s.waits = !has_context_room(s.record, p) && awaits_others(s, request);
  return s.waits;
}

// The first look finds sessions that have ended; their ends are also reported, so others need not.
bool Ledger::has_room(const Slot& s, const LedgerRequest& request) {
  uint32_t p = request.partition;
  return s.asked_for == request.sequence ? request.bytes <= room(p, contexts(p))
                                         : fits(p, request.bytes);
}

// False for a request that does not fit beside what the session itself has: others need not return
// anything for it.
bool Ledger::may_ever_fit(const Slot& s, const LedgerRequest& request) const {
  uint32_t p = request.partition;
  CheckedSize least = CheckedSize(context_bytes_[p]) + s.record.charged_bytes[p] + request.bytes;
  return least.within(limit_bytes_[p]);
}

// Asks the other sessions once for each request. A session that waits itself returned its own
// unused memory before, so sessions never wait for each other.
bool Ledger::awaits_others(Slot& s, const LedgerRequest& request) {
  auto is_running = [&](const Slot& other) {
    return &other != &s && !other.waits && other.pidfd >= 0 &&
           other.record.suspension == (uint32_t)Suspension::none;
  };
  if (s.asked_for != request.sequence)
    for (auto& other : slots_)
      if (is_running(other) && other.record.charged_bytes[request.partition] &&
          other.asked == Slot::Asked::no)
        other.asked = Slot::Asked::untold;
  s.asked_for = request.sequence;
  return std::ranges::any_of(
      slots_, [&](auto& other) { return is_running(other) && other.asked != Slot::Asked::no; });
}

std::vector<SessionId> Ledger::take_asked(int64_t until_ms) {
  std::vector<SessionId> asked;
  for (auto& s : slots_) {
    if (s.asked != Slot::Asked::untold) continue;
    s.asked = Slot::Asked::told;
    s.asked_until_ms = until_ms;
    asked.push_back(s.record.session);
  }
  return asked;
}

void Ledger::note_returned(const SessionId& id) {
  if (Slot* s = find(id)) s->asked = Slot::Asked::no;
}

bool Ledger::expire_asked(int64_t now_ms) {
  for (auto& s : slots_)
    if (s.asked == Slot::Asked::told && now_ms >= s.asked_until_ms) s.asked = Slot::Asked::no;
  return std::ranges::any_of(slots_, [](auto& s) { return s.asked != Slot::Asked::no; });
}

}  // namespace busbar::launcher
