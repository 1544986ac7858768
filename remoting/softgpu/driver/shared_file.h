// Files of allocations that are shared with other processes, which open them as /proc/PID/fd/N.
//
// Thread safety: all functions take a lock of their own.
#pragma once
#include <cstdint>

namespace softgpu {

// Return the file of an allocation, whose pages move to it with the first call; -1 on failure. No
// operation may access the allocation meanwhile.
int shared_file(uint64_t base, uint64_t bytes);
// Close the file of a freed allocation, if it was shared.
void close_shared_file(uint64_t base);

}  // namespace softgpu
