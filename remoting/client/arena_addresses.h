// Addresses that the process reserves and offers to a node for arenas.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <cstdint>
#include <vector>

namespace busbar::client {

// Reserves up to kArenaSlots unused ranges of kArenaSlotBytes and returns their addresses. Empty
// with BUSBAR_ARENA=0.
std::vector<uint64_t> reserve_arena_addresses();

// Releases the ranges at these addresses.
void release_arena_addresses(const std::vector<uint64_t>& addresses);

// Releases the part of the range at `at` behind its first `bytes` bytes.
void trim_arena_addresses(uint64_t at, uint64_t bytes);

}  // namespace busbar::client
