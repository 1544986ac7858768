// printf and assert of kernels. CUDA's vprintf packs arguments at their natural alignment.
#pragma once
#include <cstdint>

namespace softgpu {
// Write formatted text to standard output. Return the number of arguments, 0 for a format that is
// not supported.
uint32_t print_from_kernel(uint64_t format, uint64_t arguments);
// Write the message of a failed assert to standard error.
void print_assertion(uint64_t message, uint64_t file, uint32_t line, uint64_t function,
                     const uint32_t block[3], const uint32_t thread[3]);
}  // namespace softgpu
