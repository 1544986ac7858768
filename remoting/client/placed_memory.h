// Device memory of a node at an address that the client chooses.
//
// Thread safety: all functions may be called from any thread. They block for round trips.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "client/attempt.h"

namespace busbar::client {

struct Context;

struct PlacedMemory {
  uint64_t base = 0, bytes = 0;  // whole granules; 0 bytes: none
  CUmemGenericAllocationHandle handle = 0;
};

// Makes device memory for [address, address + bytes) that all devices of the node can access. It is
// charged to the context's device. Sets `free` to false if the node uses these addresses itself.
CUresult place_memory(Context* c, uint64_t address, uint64_t bytes, Attempt attempt,
                      PlacedMemory& out, bool& free);
// Frees it after the work of the node, which waits for it.
void free_placed_memory(Context* c, const PlacedMemory& m);

}  // namespace busbar::client
