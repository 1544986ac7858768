// Memory pools of stream-ordered allocation. Memory is allocated at once and freed when the stream
// reaches the free.
//
// Thread safety: Pool::mutex guards a pool. All functions take it, Driver::mutex and a lock of
// their own; callers must not hold these.
#pragma once
#include <cstdint>
#include <mutex>

#include "memory_pool_attributes.h"

namespace softgpu {

struct Pool {
  int ordinal = 0;
  std::mutex mutex;
  busbar::MemoryPoolAttributes attributes;
  uint64_t peers = 0;  // other devices with access, a bit for each
};

Pool* default_pool(int ordinal);
// Return the pool that cuMemAllocAsync uses on a device.
Pool* current_pool(int ordinal);
void set_current_pool(int ordinal, Pool* p);

// Add an allocation to the use of its pool.
void add_to_pool(Pool* p, uint64_t base, uint64_t bytes);
Pool* pool_of(uint64_t base);  // null: the memory came from none
// Subtract freed memory from the use of its pool, if it came from one.
void remove_from_pool(uint64_t base, uint64_t bytes);

}  // namespace softgpu
