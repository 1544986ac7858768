// Addresses of device memory: all of them inside the window that kernels are checked against.
#pragma once
#include <cstdint>

#include "softgpu/device/cta.h"

namespace softgpu {

constexpr uint64_t kGranularity = 2ull << 20;
constexpr uint64_t kScratchBase =
    SOFTGPU_WINDOW_BASE;  // workers: shared memory, stacks, parameters
constexpr uint64_t kScratchPerWorker = 4ull << 30;
constexpr uint64_t kPrivateBase =
    SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES / 32;  // cuMemAlloc and module globals
constexpr uint64_t kReserveBase =
    SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES / 2;  // cuMemAddressReserve without a wish

// Reserves `bytes` of inaccessible addresses, at `wish` if it is free and in the window. 0 when
// there is no room.
uint64_t reserve_addresses(uint64_t bytes, uint64_t wish);
void release_addresses(uint64_t at, uint64_t bytes);

// Ordinary zeroed memory at a fresh address of the private region. 0 on failure.
uint64_t map_private(uint64_t bytes);
void unmap_private(uint64_t at, uint64_t bytes);

}  // namespace softgpu
