// malloc and free of kernels: one heap per device and process, in device memory.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

namespace softgpu {

class KernelHeap {
 public:
  void limit(uint64_t bytes) {
    limit_ = bytes;
  }  // CU_LIMIT_MALLOC_HEAP_SIZE; counts until the first allocation
  uint64_t allocate(
      uint64_t bytes);  // 16-byte aligned; 0 when the heap is full, as malloc in a kernel does
  void release(uint64_t address);  // of something that was not allocated: nothing happens

 private:
  std::mutex mutex_;
  uint64_t limit_ = 8 << 20, base_ = 0;
  std::map<uint64_t, uint64_t> free_;  // address to bytes, never adjacent
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace softgpu
