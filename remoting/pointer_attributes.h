// Attributes of pointers, as cuda.h documents them for cuPointerGetAttribute.
//
// Thread safety: a value.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace busbar {

// The memory behind an address.
struct PointerAttributes {
  CUcontext context = nullptr;
  int ordinal = CU_DEVICE_INVALID;
  uint64_t base = 0, bytes = 0, id = 0;
  bool on_host = false, managed = false, synchronous = false;

  // Fills in an attribute of the address `p`. The access of devices, pools and handles for other
  // processes are the caller's.
  CUresult get(CUdeviceptr p, CUpointer_attribute which, void* data) const {
    auto number = [data](int n) {
      *(int*)data = n;
      return CUDA_SUCCESS;
    };
    auto word = [data](uint64_t n) {
      *(uint64_t*)data = n;
      return CUDA_SUCCESS;
    };
    switch (which) {
      case CU_POINTER_ATTRIBUTE_CONTEXT: return word((uint64_t)context);
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return number(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!on_host && !managed) return CUDA_ERROR_INVALID_VALUE;
        return word(p);
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return word(p);
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return word(id);
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return number(ordinal);
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return word(base);
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return word(bytes);
      case CU_POINTER_ATTRIBUTE_IS_MANAGED: return number(managed);
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return number(synchronous);
      case CU_POINTER_ATTRIBUTE_MAPPED: return number(1);
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return word(0);
      case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL: return number(-1);
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return number(0);
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }

  // Fills in the driver's values for an attribute that an address does not have.
  static CUresult get_default(CUpointer_attribute which, void* data) {
    switch (which) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_MAPPED:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned*)data = 0;
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int*)data = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(uint64_t*)data = 0; return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL: *(int*)data = -1; return CUDA_SUCCESS;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
};

}  // namespace busbar
