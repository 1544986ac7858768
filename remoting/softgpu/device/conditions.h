// Values of conditional graph nodes. Kernels set them by handle.
//
// Thread safety: all functions take a lock of their own and may be called from any thread.
#pragma once
#include <cstdint>

namespace softgpu {

// Return the handle of a new condition.
uint64_t make_condition(uint32_t value);
void delete_condition(uint64_t handle);
// Return false if there is no such condition.
bool set_condition(uint64_t handle, uint32_t value);
// Return the value; 0 if there is no such condition.
uint32_t condition(uint64_t handle);

}  // namespace softgpu
