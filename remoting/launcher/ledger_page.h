// The page of an allocation's ledger that sessions read: limits, charges and programs. The launcher
// never reads it.
//
// Thread safety: one thread at a time writes.
#pragma once
#include <memory>

#include "control/ledger_messages.h"
#include "launcher/sealed_memory.h"

namespace busbar::launcher {

class LedgerPage {
 public:
  // Null when the system cannot create it.
  static std::unique_ptr<LedgerPage> create() {
    auto memory = SealedMemory::create("busbar-ledger", sizeof(control::LedgerPage));
    return memory ? std::unique_ptr<LedgerPage>(new LedgerPage(std::move(memory))) : nullptr;
  }
  control::LedgerPage& values() { return *(control::LedgerPage*)memory_->data(); }
  int descriptor() const { return memory_->descriptor(); }

 private:
  explicit LedgerPage(std::unique_ptr<SealedMemory> memory) : memory_(std::move(memory)) {}
  std::unique_ptr<SealedMemory> memory_;
};

}  // namespace busbar::launcher
