// The heap of malloc and free in kernels: one for each device and process, in device memory.
//
// Thread safety: allocate and release may be called from any thread; limit before the first launch.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

namespace softgpu {

class KernelHeap {
 public:
  static constexpr uint64_t kDefaultBytes = 8 << 20;
  // CU_LIMIT_MALLOC_HEAP_SIZE. Has no effect after the first allocation.
  void limit(uint64_t bytes) { limit_ = bytes; }
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
