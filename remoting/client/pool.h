// Memory pools of stream-ordered allocation. They lie in the arena of the device; pools of NVIDIA's
// driver are not used. Memory is available at once, and is reused when the stream has completed the
// work before its free.
//
// Thread safety: all functions may be called from any thread. One mutex guards the registry; the
// mutex of a pool guards its members and is never taken together with it.
#pragma once
#include <cuda.h>

#include <vector>

#include "client/heap.h"
#include "memory_pool_attributes.h"
#include "mutex.h"

namespace busbar::client {

struct Device;

struct Pool {
  Pool(Device* d, uint64_t max_bytes) : device(d) { attributes.max_bytes = max_bytes; }

  Device* const device;
  void* handle = nullptr;
  Mutex mutex;
  MemoryPoolAttributes attributes GUARDED_BY(mutex);
  struct Freed {
    Heap::Done done;
    uint64_t bytes;
  };
  std::vector<Freed> freed GUARDED_BY(mutex);  // may still be in use by streams
};

Pool* find_pool(CUmemoryPool handle);  // null for an invalid handle
Pool* create_pool(Device* d, uint64_t max_bytes);
// Invalidates the handle. The object stays, because its memory may be in use.
void destroy_pool(Pool* p);
Pool* default_pool(Device* d);
Pool* current_pool(Device* d);
void set_current_pool(Device* d, Pool* p);

// Subtracts memory whose use has ended from the attributes.
void reclaim_completed(Pool& p) REQUIRES(p.mutex);

Pool* pool_of(uint64_t at);  // of the allocation that begins there; null: none

// Charges an allocation to a pool.
void note_pool_allocation(Pool* p, uint64_t at, uint64_t bytes);
// Notes that memory of a pool was freed; ignores other memory.
void note_pool_free(uint64_t at, Heap::Done done);

}  // namespace busbar::client
