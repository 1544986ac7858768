// Linear memory of devices and pinned memory of the host.
//
// Thread safety: all functions take Driver::mutex and callers must not hold it, except
// find_allocation, whose caller holds it. No function waits for a stream, except finish_host_write.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "softgpu/driver/allocation.h"

namespace softgpu {

// Return the allocation that contains an address, or null. The caller holds Driver::mutex.
const Allocation* find_allocation(uint64_t address);

// Allocate device memory and charge it to the device.
CUresult allocate_memory(Context* c, size_t bytes, CUdeviceptr* out);
// Allocate pinned host memory with flags of cuMemHostAlloc.
CUresult allocate_host_memory(Context* c, size_t bytes, unsigned flags, void** out);
// Free an allocation of kind device or host, or forget a registered one.
CUresult release_memory(uint64_t base);
// Return whether kernels and copies may access all of [address, address + bytes).
bool valid_device_range(uint64_t address, size_t bytes);
// Return whether an address is in an allocation. Other memory is pageable: it may change or be
// freed after a call.
bool allocated(const void* address);
// Return whether [address, address + bytes) is registered host memory, which kernels may access.
bool registered_memory(uint64_t address, uint32_t bytes);

// Wait until a fill of host memory is complete: calls without a stream return with the memory
// written. Return `r` at once if it is an error.
CUresult finish_host_write(CUresult r, CUdeviceptr p);

}  // namespace softgpu
