// A range of memory that programs can name by address.
//
// Thread safety: allocations are guarded by Driver::mutex.
#pragma once
#include <cstdint>

namespace softgpu {

struct Context;

struct Allocation {
  enum Kind {
    device,      // cuMemAlloc and pools
    host,        // cuMemHostAlloc
    registered,  // cuMemHostRegister
    mapped,      // module variables and memory of other processes
    reserved,    // cuMemAddressReserve: addresses that may have mappings
  } kind = device;
  uint64_t base = 0, bytes = 0;
  uint64_t charged = 0;  // bytes charged to the device
  Context* context = nullptr;
  unsigned flags = 0;  // of cuMemHostAlloc
  int ordinal = 0;     // device
  uint64_t id = 0;     // never reused
  bool managed = false;
  bool synchronous = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
};

}  // namespace softgpu
