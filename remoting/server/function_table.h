// Functions by the client's id.
//
// Thread safety: any thread. get() takes no lock, so launches do not wait for loads.
#pragma once
#include <cuda.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace busbar::server {

class FunctionTable {
 public:
  static constexpr uint32_t kChunk = 4096, kChunks = 1024;
  FunctionTable() = default;
  FunctionTable(const FunctionTable&) = delete;
  ~FunctionTable() {
    for (auto& chunk : chunks_) delete[] chunk.load();
  }
  // False when the id is out of range or in use.
  bool add(uint32_t id, CUfunction f) {
    if (id >= kChunk * kChunks) return false;
    std::lock_guard lock(mutex_);
    auto& chunk = chunks_[id / kChunk];
    if (!chunk.load()) chunk.store(new std::atomic<CUfunction>[kChunk] {});
    auto& entry = chunk.load()[id % kChunk];
    if (entry.load()) return false;
    entry.store(f, std::memory_order_release);
    ids_[f] = id;
    return true;
  }
  // Removes a function that was added.
  void remove(uint32_t id) {
    std::lock_guard lock(mutex_);
    CUfunction f = chunks_[id / kChunk].load()[id % kChunk].exchange(nullptr);
    if (auto it = ids_.find(f); it != ids_.end() && it->second == id) ids_.erase(it);
  }
  // Returns null for an unknown id.
  CUfunction get(uint32_t id) const {
    if (id >= kChunk * kChunks) return nullptr;
    auto* chunk = chunks_[id / kChunk].load(std::memory_order_acquire);
    return chunk ? chunk[id % kChunk].load(std::memory_order_acquire) : nullptr;
  }
  // Returns 0 for an unknown function.
  uint32_t id_of(CUfunction f) const {
    std::lock_guard lock(mutex_);
    auto it = ids_.find(f);
    return it == ids_.end() ? 0 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<std::atomic<CUfunction>*> chunks_[kChunks] = {};
  std::unordered_map<CUfunction, uint32_t> ids_;
};

}  // namespace busbar::server
