// Suspension in the ledger: the host memory that it is charged for, and its state. ADR 84.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "checked_size.h"
#include "control/log.h"
#include "launcher/ledger.h"

namespace busbar::launcher {

using control::LedgerOp;
using control::LedgerRequest;
using control::Suspension;

namespace {
// For sessions that an earlier launcher has told.
constexpr int64_t kAdoptedMs = 120'000;
// Otherwise its host memory would stay charged without a deadline.
constexpr char kNotSaved[] = "the session asked for memory that it had not released";

bool is_unconfirmed(const auto& record) {
  return record.suspension == (uint32_t)Suspension::suspending;
}
}  // namespace

void Ledger::end_suspension(Record& record, const std::string& reason) {
  record.suspension = (uint32_t)Suspension::none;
  record.host_bytes = 0;
  std::memset(record.reason, 0, sizeof record.reason);
  std::snprintf(record.reason, sizeof record.reason, "%s", reason.c_str());
}

std::string Ledger::begin_suspension(const SessionId& id, uint64_t host_room, int64_t deadline_ms) {
  Slot* s = find(id);
  if (!s || s->pidfd < 0) return "no such session runs";
  if (s->record.suspension != (uint32_t)Suspension::none) return "its suspension has begun";
  CheckedSize bytes(0);
  for (uint64_t charged : s->record.charged_bytes) bytes = bytes + charged;
  if (!bytes.within(host_room)) return "the host memory for suspended sessions is full";
  Record before = s->record;
  end_suspension(s->record, "");
  s->record.suspension = (uint32_t)Suspension::suspending;
  s->record.host_bytes = bytes.value();
  s->suspend_until_ms = deadline_ms;
  if (write(*s)) return "";
  s->record = before;
  return "the ledger cannot be written";
}

void Ledger::abandon_suspension(const SessionId& id, const std::string& reason) {
  Slot* s = find(id);
  if (!s || s->record.suspension != (uint32_t)Suspension::suspending) return;
  end_suspension(s->record, reason);
  write(*s);
}

std::vector<SessionId> Ledger::abandon_late_suspensions(int64_t now_ms) {
  std::vector<SessionId> late;
  for (auto& s : slots_) {
    if (s.record.suspension != (uint32_t)Suspension::suspending) continue;
    if (!s.suspend_until_ms) s.suspend_until_ms = now_ms + kAdoptedMs;
    if (now_ms >= s.suspend_until_ms) late.push_back(s.record.session);
  }
  for (auto& id : late) abandon_suspension(id, "the session did not answer in time");
  return late;
}

uint64_t Ledger::host_bytes() const {
  CheckedSize all(0);
  for (auto& s : slots_) all = all + s.record.host_bytes;
  return all.value();
}

control::SuspensionRecord Ledger::suspension_of(const SessionId& id) const {
  control::SuspensionRecord shown{};
  std::ranges::copy(id, shown.id);
  if (const Slot* s = find(id)) {
    shown.host_bytes = s->record.host_bytes;
    shown.state = s->record.suspension;
    std::memcpy(shown.reason, s->record.reason, sizeof shown.reason);
  }
  return shown;
}

bool Ledger::note_waiting(Slot& s) {
  if (s.record.suspension == (uint32_t)Suspension::none ||
      s.record.suspension == (uint32_t)Suspension::waiting)
    return true;
  Record before = s.record;
  if (is_unconfirmed(before))
    end_suspension(s.record, kNotSaved);
  else
    s.record.suspension = (uint32_t)Suspension::waiting;
  if (write(s)) return true;
  s.record = before;
  return false;
}

// A session may save as many bytes as it was charged when the launcher told it to suspend.
void Ledger::note_growth(Record& record) {
  if (is_unconfirmed(record)) end_suspension(record, "its program has allocated memory meanwhile");
}

// A session can claim only what it was told: another claim is not granted, or changes nothing.
void Ledger::change_suspension(Record& record, const LedgerRequest& request) {
  auto state = (Suspension)record.suspension;
  std::string reason(request.name, strnlen(request.name, sizeof request.name));
  if ((LedgerOp)request.op == LedgerOp::suspended) {
    record.granted = state == Suspension::suspending;
    if (record.granted) record.suspension = (uint32_t)Suspension::suspended;
  } else if ((LedgerOp)request.op == LedgerOp::resume) {
    if (state == Suspension::suspending)
      end_suspension(record, kNotSaved);
    else if (state != Suspension::none)
      record.suspension = (uint32_t)Suspension::restoring;
  } else if (state != Suspension::none) {
    end_suspension(record, control::escaped(reason));
  }
}

}  // namespace busbar::launcher
