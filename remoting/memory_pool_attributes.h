// Attributes of a memory pool, as cuda.h documents them for cuMemPoolSetAttribute and
// cuMemPoolGetAttribute. A pool keeps no free memory, so what it reserves is what is in use.
//
// Thread safety: the caller has the mutex of the pool.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstdint>

namespace busbar {

struct MemoryPoolAttributes {
  uint64_t max_bytes = 0;            // 0: no maximum. This and the next have no effect.
  uint64_t threshold = 0;            // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
  int reuse[4] = {0, 1, 1, 1};       // by CUmemPool_attribute, 1 to 3; have no effect
  uint64_t used = 0, used_high = 0;  // bytes

  void add(uint64_t bytes) {
    used += bytes;
    used_high = std::max(used_high, used);
  }
  void subtract(uint64_t bytes) { used -= std::min(used, bytes); }

  static bool is_reuse(CUmemPool_attribute which) {
    return which >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  }

  CUresult set(CUmemPool_attribute which, const void* value) {
    bool is_high =
        which == CU_MEMPOOL_ATTR_USED_MEM_HIGH || which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    if (is_reuse(which))
      reuse[which] = *(const int*)value;
    else if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
      threshold = *(const cuuint64_t*)value;
    else if (is_high && *(const cuuint64_t*)value == 0)
      used_high = used;
    else
      return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }

  // `ordinal` is that of the device of the pool.
  CUresult get(CUmemPool_attribute which, int ordinal, void* value) const {
    auto number = [value](int n) {
      *(int*)value = n;
      return CUDA_SUCCESS;
    };
    auto bytes = [value](uint64_t n) {
      *(cuuint64_t*)value = n;
      return CUDA_SUCCESS;
    };
    if (is_reuse(which)) return number(reuse[which]);
    switch (which) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return bytes(threshold);
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return bytes(used);
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return bytes(used_high);
      case CU_MEMPOOL_ATTR_MAX_POOL_SIZE: return bytes(max_bytes);
      case CU_MEMPOOL_ATTR_ALLOCATION_TYPE: return number(CU_MEM_ALLOCATION_TYPE_PINNED);
      case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES: return number(CU_MEM_HANDLE_TYPE_NONE);
      case CU_MEMPOOL_ATTR_LOCATION_ID: return number(ordinal);
      case CU_MEMPOOL_ATTR_LOCATION_TYPE: return number(CU_MEM_LOCATION_TYPE_DEVICE);
      case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED: return number(0);
      case CU_MEMPOOL_ATTR_LOCALITY_DOMAIN_ID: return number(-1);  // not localized
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
};

}  // namespace busbar
