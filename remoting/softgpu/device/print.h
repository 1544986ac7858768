// printf from kernels: CUDA's vprintf packs arguments at their natural alignment.
#pragma once
#include <cstdint>

namespace softgpu {
// Writes one formatted line to standard output; returns the number of arguments, or 0 for a format
// it cannot follow.
uint32_t print_from_kernel(uint64_t format, uint64_t arguments);
// What a failed assert() of a kernel says, on standard error.
void print_assertion(uint64_t message, uint64_t file, uint32_t line, uint64_t function,
                     const uint32_t block[3], const uint32_t thread[3]);
}  // namespace softgpu
