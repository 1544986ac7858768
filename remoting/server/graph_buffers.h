// Pinned buffers that stand for host memory of the program in the copies of graphs. They live as
// long as the session, because a graph may be launched at any time.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "checked_size.h"
#include "server/driver.h"
#include "wire/format.h"

namespace busbar::server {

struct GraphBuffer {
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

class GraphBuffers {
 public:
  explicit GraphBuffers(Driver& cu) : cu_(cu) {}

  // Allocates a buffer. Fails if it exists or all buffers together would exceed
  // wire::kMaxStagedBytes. Blocks in the driver, without the lock; one thread allocates.
  CUresult allocate(uint32_t id, uint64_t bytes) {
    {
      std::lock_guard lock(mutex_);
      if (!bytes || bytes > wire::kMaxStagedBytes - total_bytes_ || buffers_.count(id) ||
          buffers_.size() >= wire::kMaxListElements)
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    void* p = nullptr;
    if (CUresult r = cu_.cuMemHostAlloc(&p, bytes, 0)) return r;
    std::lock_guard lock(mutex_);
    total_bytes_ += bytes;
    ids_[p] = id;
    buffers_[id] = {(uint8_t*)p, bytes};
    return CUDA_SUCCESS;
  }

  // Without data if there is no such buffer.
  GraphBuffer find(uint32_t id) {
    std::lock_guard lock(mutex_);
    auto it = buffers_.find(id);
    return it == buffers_.end() ? GraphBuffer{} : it->second;
  }

  // Returns the buffer that begins at `p`, or 0.
  uint32_t id_of(const void* p) {
    std::lock_guard lock(mutex_);
    auto it = ids_.find(p);
    return it == ids_.end() ? 0 : it->second;
  }

 private:
  Driver& cu_;
  std::mutex mutex_;
  std::unordered_map<uint32_t, GraphBuffer> buffers_;
  std::unordered_map<const void*, uint32_t> ids_;
  uint64_t total_bytes_ = 0;
};

}  // namespace busbar::server
