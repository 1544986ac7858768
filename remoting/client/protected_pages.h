// Managed pages whose faults come by SIGSEGV: a file mapping and its page protection. The client
// uses a second mapping of the same file, which is always accessible.
//
// Thread safety: as managed_pages.h.
#pragma once
#include "client/managed_pages.h"

namespace busbar::client {

// Maps a range. Null: no memory.
std::unique_ptr<ManagedPages> map_protected_pages(uint64_t base, uint64_t bytes);

}  // namespace busbar::client
