// Handles that the library gives to the program. A handle encodes kind, generation and index, so
// that a stale or foreign handle is detected.
//
// Thread safety: all members may be called from any thread. get() takes no lock; add(), remove()
// and all() take one mutex.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "mutex.h"

namespace busbar::client {

enum class HandleKind : uint64_t {
  context = 0x51,
  stream = 0x52,
  event = 0x53,
  module = 0x54,
  function = 0x55,
  library = 0x56,
  kernel = 0x57,
  link = 0x58,
  pool = 0x59
};

template <typename T, HandleKind kKind>
class Handles {
 public:
  // Returns a new handle. The object must stay valid until its handle is removed.
  void* add(T* object) {
    MutexLock lock(mutex_);
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = count_++;
      if (index % kChunk == 0) chunks_[index / kChunk].store(new Slot[kChunk]);
    }
    Slot& s = slot(index);
    s.object.store(object, std::memory_order_release);
    return (void*)((uint64_t)kKind << 56 | (uint64_t)s.generation << 32 | (index + 1));
  }

  // Returns null for a handle that is stale or of another kind.
  T* get(const void* handle) const {
    auto v = (uint64_t)handle;
    uint32_t index = (uint32_t)v - 1;
    if (v >> 56 != (uint64_t)kKind || index >= kChunks * kChunk) return nullptr;
    Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    if (!chunk) return nullptr;
    Slot& s = chunk[index % kChunk];
    return s.generation == (v >> 32 & 0xffffff) ? s.object.load(std::memory_order_acquire)
                                                : nullptr;
  }

  std::vector<T*> all() const {
    MutexLock lock(mutex_);
    std::vector<T*> list;
    for (uint32_t i = 0; i < count_; ++i)
      if (T* object = slot(i).object.load(std::memory_order_acquire)) list.push_back(object);
    return list;
  }

  // Invalidates a handle and returns its object, or null if the handle is not valid.
  T* remove(const void* handle) {
    MutexLock lock(mutex_);
    T* object = get(handle);
    if (!object) return nullptr;
    uint32_t index = (uint32_t)(uint64_t)handle - 1;
    Slot& s = slot(index);
    s.object.store(nullptr);
    s.generation = (s.generation + 1) & 0xffffff;
    free_.push_back(index);
    return object;
  }

 private:
  static constexpr uint32_t kChunk = 4096, kChunks = 1024;  // slots of a chunk; chunks
  struct Slot {
    std::atomic<T*> object{nullptr};
    uint32_t generation = 0;  // 24 bits
  };
  Slot& slot(uint32_t index) const {
    return chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
  }
  mutable std::atomic<Slot*> chunks_[kChunks] = {};
  mutable Mutex mutex_;
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  uint32_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace busbar::client
