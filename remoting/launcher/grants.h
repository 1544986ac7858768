// What the appliance wants on this node, as the agent last said it; kept on disk for a launcher
// that starts without an agent.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/ticket.h"
#include "server/ledger.h"

namespace busbar::launcher {

std::string hex(const uint8_t* p, size_t n);

struct Grant {
  control::Allocation allocation;
  std::string ledger_path;
};

class Grants {
 public:
  explicit Grants(std::string runtime) : runtime_(std::move(runtime)) {}

  bool load();  // from disk; false when there are none
  // Replaces everything. False when the message is out of bounds.
  bool replace(const uint8_t* p, size_t n);

  // Checks a ticket against time, node, fence and grant. False with a reason for the log.
  bool admit(const uint8_t* ticket, size_t n, Ticket& out, Grant& grant, std::string& why);
  // May a session that was opened under this fence go on?
  bool holds(const uint8_t* allocation, uint64_t epoch, uint64_t counter);
  // Calls that a session server of this allocation refused.
  std::string refused(const uint8_t* allocation, pid_t pid, uint64_t start_time);
  uint64_t generation();

 private:
  bool apply(const uint8_t* p, size_t n);
  int64_t appliance_seconds() const;
  std::string runtime_;
  std::mutex mutex_;
  control::Grants head_{};
  int64_t received_monotonic_ = 0;
  std::map<std::string, Grant> by_allocation_;  // by the id in hexadecimal
  std::map<std::string, std::unique_ptr<server::Ledger>> ledgers_;
  bool known_ = false;
};

}  // namespace busbar::launcher
