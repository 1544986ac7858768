// Physical memory of cuMemCreate, in a file without a name.
//
// Thread safety: Driver::mutex guards the references; the other members do not change.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace softgpu {

struct PhysicalMemory {
  int fd = -1;
  uint64_t bytes = 0;
  int ordinal = 0;        // device
  int references = 1;     // each retained handle and each mapping
  bool imported = false;  // another process is charged for it
  CUmemAllocationProp properties = {};
  int handles = 1;  // as often as the program has the handle
};

// Drop a reference. The last one frees the memory. The caller does not hold Driver::mutex.
void release_physical_memory(PhysicalMemory* m);

}  // namespace softgpu
