// Device memory of a session. Everything here is charged to the ledger of the allocation.
//
// Thread safety: the types have no lock of their own. clear_mapped() blocks until the driver is
// done; a context must be current.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <vector>

#include "server/driver.h"
#include "server/memory_charge.h"

namespace busbar::server {

// Bytes of a partition that a driver object uses.
struct Charge {
  uint64_t bytes = 0;
  uint32_t partition = 0;
};

// A range of device memory granted to the client.
struct MemoryLease {
  uint64_t bytes = 0;
  uint32_t device = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool outside_arena = false;  // allocated by the driver at an address of its choice
};

// A lease that other sessions may open, as a whole: they are charged for what they map.
struct SharedLease {
  CUmemGenericAllocationHandle handle = 0;
  uint64_t bytes = 0;
  bool operator==(const SharedLease&) const = default;
};

// Physical memory that the program created with cuMemCreate. It is charged until it is released and
// no mapping is left; the driver's handle is kept as long.
struct PhysicalMemory {
  uint64_t bytes;
  uint32_t device;  // index into the session's devices
  uint32_t mappings;
  bool released;
  CUmemGenericAllocationHandle handle;  // another one after a suspension
};

// A mapping of the program. It is removed as a whole.
struct Mapping {
  uint64_t bytes = 0;
  uint64_t handle = 0;  // of the client; 0: memory of another session
  MemoryCharge charge;  // of memory of another session, which may release it before
  std::map<uint32_t, CUmemAccess_flags> access;  // by device
  std::vector<uint64_t> parts;  // bytes of the leases of another session that lie here
};

// Returns the bytes that a driver takes from the GPU for one allocation: pages of 4 KiB, or blocks
// of 2 MiB on an NVIDIA GPU. Allocations of up to 1 MiB share blocks there.
uint64_t allocation_charge(const Driver& cu, uint64_t bytes);

// Clears mapped memory, which another tenant may have used, and waits for the end. Does nothing if
// the driver provides cleared memory.
CUresult clear_mapped(Driver& cu, uint64_t at, uint64_t bytes);

}  // namespace busbar::server
