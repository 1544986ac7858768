// Buffers of pinned memory that stand for the program's host memory in the copies of graphs. They
// live as long as the session.
#pragma once
#include <map>
#include <mutex>
#include <unordered_map>

#include "server/driver.h"
#include "wire/format.h"

namespace busbar::server {

struct GraphBuffer {
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

class GraphMemory {
 public:
  explicit GraphMemory(Driver& cu) : cu_(cu) {}
  // Makes it when it is not there; `data` is null when that fails, or when all of them together are
  // too large.
  GraphBuffer make(uint32_t id, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    GraphBuffer& b = buffers_[id];
    if (b.data) return b.bytes >= bytes ? b : GraphBuffer{};
    void* p = nullptr;
    if (!bytes || total_ + bytes > wire::kMaxStagedBytes || buffers_.size() > wire::kMaxListed ||
        cu_.cuMemHostAlloc(&p, bytes, 0)) {
      buffers_.erase(id);
      return {};
    }
    total_ += bytes;
    ids_[(uint8_t*)p] = id;
    return b = {(uint8_t*)p, bytes};
  }
  GraphBuffer find(uint32_t id) {
    std::lock_guard lock(mutex_);
    auto it = buffers_.find(id);
    return it == buffers_.end() ? GraphBuffer{} : it->second;
  }
  // 0: no buffer begins there.
  uint32_t number(const void* p) {
    std::lock_guard lock(mutex_);
    auto it = ids_.find((uint8_t*)p);
    return it == ids_.end() ? 0 : it->second;
  }

 private:
  Driver& cu_;
  std::mutex mutex_;
  std::unordered_map<uint32_t, GraphBuffer> buffers_;
  std::map<uint8_t*, uint32_t> ids_;
  uint64_t total_ = 0;
};

}  // namespace busbar::server
