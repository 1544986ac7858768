// Managed pages whose faults come by userfaultfd (Linux 5.11): anonymous memory that the kernel
// write-protects page by page. System calls on pages without access return EFAULT.
//
// Thread safety: as managed_pages.h.
#pragma once
#include "client/managed_pages.h"

namespace busbar::client {

// Opens the descriptor and starts the thread of the resolver. Returns 0 or the system's error.
int start_userfaults(FaultResolver resolve);
// Maps a range. Null: no memory. Call it after start_userfaults().
std::unique_ptr<ManagedPages> map_userfault_pages(uint64_t base, uint64_t bytes);

}  // namespace busbar::client
