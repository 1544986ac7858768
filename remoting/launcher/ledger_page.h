// The page of an allocation's ledger that sessions read: limits, charges and programs. It is
// sealed, so that no other process can map it writable, and the launcher never reads it.
//
// Thread safety: one thread at a time writes.
#pragma once
#include <memory>

#include "control/ledger_messages.h"

namespace busbar::launcher {

class LedgerPage {
 public:
  // Null when the system cannot create it.
  static std::unique_ptr<LedgerPage> create();
  ~LedgerPage();
  LedgerPage(const LedgerPage&) = delete;
  control::LedgerPage& values() { return *values_; }
  int descriptor() const { return fd_; }

 private:
  LedgerPage(int fd, control::LedgerPage* values) : fd_(fd), values_(values) {}
  int fd_;
  control::LedgerPage* values_;
};

}  // namespace busbar::launcher
