// The grants of this node, as the agent last sent them. They are kept on disk for a launcher that
// starts without an agent.
//
// Thread safety: any thread; mutex_ guards everything.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "launcher/ticket.h"
#include "server/ledger.h"

namespace busbar::launcher {

struct Grant {
  control::Allocation allocation;
  std::string ledger_path;
};

class Grants {
 public:
  explicit Grants(std::string runtime) : runtime_(std::move(runtime)) {}

  // Reads the grants from disk. False if there are none.
  bool load();
  // Replaces all grants and writes them to disk. False if the message is malformed.
  bool replace(const uint8_t* p, size_t n);

  // Checks signature, node, time, fence and partitions of a ticket. False with a reason for the
  // log.
  bool admit(const uint8_t* ticket, size_t n, Ticket& out, Grant& grant, std::string& reason);
  // True if a session that was opened under this fence may continue.
  bool permits(const uint8_t* allocation, uint64_t epoch, uint64_t counter);
  // Returns the unsupported calls of a session server of this allocation.
  std::string refused_calls(const uint8_t* allocation, pid_t pid, uint64_t start_time);
  uint64_t generation();

 private:
  bool apply(const uint8_t* p, size_t n);
  bool create_ledger(const std::string& id, Grant& grant);
  void remove_other_ledgers(const std::map<std::string, Grant>& kept);
  std::string reason_against(const Ticket& ticket) const;
  int64_t appliance_seconds() const;
  std::string runtime_;
  std::mutex mutex_;
  control::Grants head_{};
  int64_t received_boottime_ = 0;               // CLOCK_BOOTTIME of the newest message, in seconds
  std::map<std::string, Grant> by_allocation_;  // by the id in hexadecimal
  std::map<std::string, std::unique_ptr<server::Ledger>> ledgers_;
  bool received_ = false;
};

}  // namespace busbar::launcher
