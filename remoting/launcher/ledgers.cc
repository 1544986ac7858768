#include "launcher/ledgers.h"

#include <sys/socket.h>
#include <unistd.h>

#include "control/messages.h"

namespace busbar::launcher {

Ledger* Ledgers::find(const std::string& allocation) {
  auto it = entries_.find(allocation);
  return it == entries_.end() ? nullptr : it->second.ledger.get();
}

bool Ledgers::set_limits(const std::string& allocation, const uint64_t* bytes, uint32_t partitions,
                         const uint64_t* context_bytes) {
  std::lock_guard lock(mutex_);
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
  std::lock_guard lock(mutex_);
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

bool Ledgers::add(const Account& a, uint32_t server_pid, uint32_t client_pid, int pidfd) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(a.allocation);
  return ledger && ledger->add(a.session, server_pid, client_pid, pidfd);
}

void Ledgers::end(const Account& a) {
  std::lock_guard lock(mutex_);
  if (Ledger* ledger = find(a.allocation)) ledger->end(a.session);
}

void Ledgers::remove(const Account& a) {
  std::lock_guard lock(mutex_);
  if (Ledger* ledger = find(a.allocation)) ledger->remove(a.session);
  remove_unused(a.allocation);
}

void Ledgers::remove_others(const std::function<bool(const SessionId&)>& is_known) {
  std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& [allocation, entry] = *it++;
    entry.ledger->remove_others(is_known);
    remove_unused(allocation);
  }
}

bool Ledgers::apply(const Account& a, const control::LedgerRequest& request,
                    control::LedgerAnswer& answer) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(a.allocation);
  return ledger && ledger->apply(a.session, request, answer);
}

std::array<uint64_t, wire::kMaxDevices> Ledgers::charged_by(const Account& a) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(a.allocation);
  return ledger ? ledger->charged_by(a.session) : std::array<uint64_t, wire::kMaxDevices>{};
}

uint64_t Ledgers::charged(const std::string& allocation, uint32_t partition) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(allocation);
  return ledger ? ledger->charged(partition) : 0;
}

std::string Ledgers::refused_calls(const Account& a) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(a.allocation);
  return ledger ? ledger->refused_calls(a.session) : "";
}

bool Ledgers::send_page(const Account& a, int socket) {
  std::lock_guard lock(mutex_);
  Ledger* ledger = find(a.allocation);
  int entry = ledger ? ledger->entry_of(a.session) : -1;
  if (entry < 0) return false;
  control::LedgerPlace place{(uint32_t)entry, 0};
  return control::send_message(socket, control::Kind::ledger_page, &place, sizeof place,
                               ledger->page_descriptor(), 0);
}

}  // namespace busbar::launcher
