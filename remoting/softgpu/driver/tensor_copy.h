// Copies of boxes of tensors between global and shared memory (cp.async.bulk.tensor), and
// reductions.
//
// The tensor map comes from the program: each field and each address is checked. Tiled maps without
// interleaving are supported, of elements of 1 to 8 bytes without tf32.
//
// Thread safety: worker threads copy at the same time; reductions are atomic.
#pragma once
#include <cstdint>

#include "softgpu/device/grid.h"

namespace softgpu {

// Copy the box of the tensor map at address `map`. A copy waits for nothing: it is complete when
// this returns.
TensorResult copy_tensor(uint64_t map, const TensorCopy& copy, const SharedMemory& shared);

// Return the size of an element of a CUtensorMapDataType that copies support, in bytes; otherwise
// 0.
uint32_t tensor_element_bytes(uint8_t type);

}  // namespace softgpu
