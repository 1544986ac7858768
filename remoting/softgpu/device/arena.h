// Addresses of device memory. All lie inside the window against which kernels check every access.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cstdint>

#include "softgpu/device/cta.h"

namespace softgpu {

constexpr uint64_t kGranularity = 2ull << 20;  // bytes
constexpr uint64_t kScratchBase =
    SOFTGPU_WINDOW_BASE;  // workers: shared memory, stacks, parameters
constexpr uint64_t kScratchPerWorker = 4ull << 30;
constexpr uint64_t kPrivateBase =
    SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES / 32;  // cuMemAlloc and module globals
constexpr uint64_t kReserveBase =
    SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES / 2;  // cuMemAddressReserve without a hint

// Reserve `bytes` of inaccessible addresses, at `hint` if that is free and in the window. Return 0
// if there is no room.
uint64_t reserve_addresses(uint64_t bytes, uint64_t hint);
void release_addresses(uint64_t at, uint64_t bytes);

// Map zeroed memory at an address that was never used before. Return 0 on failure.
uint64_t map_private(uint64_t bytes);
void unmap_private(uint64_t at, uint64_t bytes);

}  // namespace softgpu
