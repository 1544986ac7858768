// Values that decide what graphs run. Kernels set them by handle.
#pragma once
#include <cstdint>

namespace softgpu {

uint64_t make_condition(uint32_t value);
void forget_condition(uint64_t handle);
bool set_condition(uint64_t handle, uint32_t value);  // false: there is none
uint32_t condition(uint64_t handle);                  // 0 for what is none

}  // namespace softgpu
