// The heap of malloc and free in kernels: one for each device and process, in device memory.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

namespace softgpu {

class KernelHeap {
 public:
  static constexpr uint64_t kDefaultBytes = 8 << 20;
  // CU_LIMIT_MALLOC_HEAP_SIZE. Return false if kernels use the heap, whose size is then fixed.
  bool limit(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (base_ && bytes != limit_) return false;
    limit_ = bytes;
    return true;
  }
  // Return an address with an alignment of 16 bytes; 0 if the heap is full.
  uint64_t allocate(uint64_t bytes);
  // Ignores addresses that are not allocated.
  void release(uint64_t address);

 private:
  std::mutex mutex_;
  uint64_t limit_ = kDefaultBytes;
  uint64_t base_ = 0;                  // 0 before the first allocation
  std::map<uint64_t, uint64_t> free_;  // address to bytes; ranges are never adjacent
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace softgpu
