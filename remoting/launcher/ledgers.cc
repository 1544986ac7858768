#include "launcher/ledgers.h"

#include <unistd.h>

#include "checked_size.h"

namespace busbar::launcher {

Ledger* Ledgers::find(const std::string& allocation) {
  auto it = entries_.find(allocation);
  return it == entries_.end() ? nullptr : it->second.ledger.get();
}

bool Ledgers::set_limits(const std::string& allocation, const uint64_t* bytes, uint32_t partitions,
                         const uint64_t* context_bytes) {
  FairLock lock(mutex_);
  Entry& entry = entries_[allocation];
  if (!entry.ledger) entry.ledger = Ledger::open(path_of(allocation));
  if (!entry.ledger) {
    entries_.erase(allocation);
    return false;
  }
  entry.granted = true;
  entry.ledger->set_limits(bytes, partitions, context_bytes);
  return true;
}

void Ledgers::keep(const std::function<bool(const std::string&)>& is_granted) {
  FairLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& [allocation, entry] = *it++;
    entry.granted = is_granted(allocation);
    if (entry.granted) continue;
    entry.ledger->set_limits(nullptr, 0);
    remove_unused(allocation);
  }
}

// Removes a ledger without grant and sessions.
void Ledgers::remove_unused(const std::string& allocation) {
  auto it = entries_.find(allocation);
  if (it == entries_.end() || it->second.granted || !it->second.ledger->empty()) return;
  unlink(path_of(allocation).c_str());
  entries_.erase(it);
}

void Ledgers::remove(const Account& a) {
  FairLock lock(mutex_);
  if (Ledger* ledger = find(a.allocation)) ledger->remove(a.session);
  remove_unused(a.allocation);
}

void Ledgers::remove_others(const std::function<bool(const SessionId&)>& is_known) {
  FairLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& [allocation, entry] = *it++;
    entry.ledger->remove_others(is_known);
    remove_unused(allocation);
  }
}

std::array<uint64_t, wire::kMaxDevices> Ledgers::held(const std::string& allocation,
                                                      uint32_t partitions) {
  FairLock lock(mutex_);
  std::array<uint64_t, wire::kMaxDevices> bytes{};
  if (Ledger* ledger = find(allocation))
    for (uint32_t p = 0; p < partitions; ++p) bytes[p] = ledger->held(p);
  return bytes;
}

uint64_t Ledgers::all_host_bytes() const {
  CheckedSize all(0);
  for (auto& [allocation, entry] : entries_) all = all + entry.ledger->host_bytes();
  return all.value();
}

std::string Ledgers::begin_suspension(const Account& a, uint64_t budget, int64_t deadline_ms) {
  FairLock lock(mutex_);
  Ledger* ledger = find(a.allocation);
  if (!ledger) return "no such session runs";
  uint64_t used = all_host_bytes();
  return ledger->begin_suspension(a.session, used < budget ? budget - used : 0, deadline_ms);
}

std::vector<SessionId> Ledgers::abandon_late_suspensions(int64_t now_ms) {
  FairLock lock(mutex_);
  std::vector<SessionId> late;
  for (auto& [allocation, entry] : entries_)
    for (auto& id : entry.ledger->abandon_late_suspensions(now_ms)) late.push_back(id);
  return late;
}

uint64_t Ledgers::host_bytes() {
  FairLock lock(mutex_);
  return all_host_bytes();
}

std::vector<SessionId> Ledgers::take_asked(const std::string& allocation, int64_t until_ms) {
  FairLock lock(mutex_);
  Ledger* ledger = find(allocation);
  return ledger ? ledger->take_asked(until_ms) : std::vector<SessionId>{};
}

bool Ledgers::expire_asked(int64_t now_ms) {
  FairLock lock(mutex_);
  bool waits = false;
  for (auto& [allocation, entry] : entries_) waits |= entry.ledger->expire_asked(now_ms);
  return waits;
}

}  // namespace busbar::launcher
