// Delivery of faults of managed memory to their resolver: by userfaultfd or by SIGSEGV.
//
// Thread safety: as managed_pages.h.
#pragma once
#include <cstdint>
#include <memory>

#include "client/managed_pages.h"

namespace busbar::client {

// Maps a range of the reservation of an arena. Null: no memory. The first call starts the thread
// of the resolver and, without userfaultfd, installs the handler and tells the user so.
std::unique_ptr<ManagedPages> map_managed_pages(uint64_t base, uint64_t bytes, FaultResolver);

// Without userfaultfd: makes later faults reach the resolver although the program has installed a
// handler, or blocks SIGSEGV in this thread. Call it when the program may lose access.
void keep_managed_faults();

}  // namespace busbar::client
