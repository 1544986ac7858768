// Pinned memory of the program. It lies at addresses that nodes keep free, so that kernels can use
// the same address for the node's copy of it (mapped.h).
//
// Thread safety: all functions may be called from any thread. One mutex, held during mmap.
#pragma once
#include <cstdint>

#include "wire/format.h"

namespace busbar::client {

// Return whether an address may lie in pinned memory that a node can place at the same address.
inline bool may_be_pinned(uint64_t address) {
  return address - wire::kFirstPinnedAddress < wire::kLastPinnedAddress - wire::kFirstPinnedAddress;
}

// Allocates host memory, outside of these addresses if they are used up. Returns null on failure.
void* allocate_pinned(uint64_t bytes);
void free_pinned(void* p, uint64_t bytes);

}  // namespace busbar::client
