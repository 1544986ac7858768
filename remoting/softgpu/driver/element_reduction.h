// Reductions of elements of tensors in global memory.
//
// Thread safety: reductions are atomic for each element.
#pragma once
#include <cstdint>

namespace softgpu {

// Return whether elements of a CUtensorMapDataType have a reduction (TENSOR_ADD and so on).
bool can_reduce(uint8_t operation, uint8_t type);
// Reduce the elements at `memory` with those at `values`. Requires can_reduce().
void reduce_elements(uint8_t operation, uint8_t type, uint8_t* memory, const uint8_t* values,
                     uint32_t bytes);
// Set subnormal floats of 32 bits to zeros of their sign.
void flush_subnormals(uint8_t* values, uint32_t bytes);

}  // namespace softgpu
