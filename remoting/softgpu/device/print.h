// printf from kernels: CUDA's vprintf packs arguments at their natural alignment.
#pragma once
#include <cstdint>

namespace softgpu {
// Writes one formatted line to standard output; returns the number of arguments, or 0 for a format it cannot follow.
uint32_t print_from_kernel(uint64_t format, uint64_t arguments);
}  // namespace softgpu
