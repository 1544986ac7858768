// Compiler options that accompany the load or link of a module.
//
// Only options with a numeric value are sent. Options that hold an address in the client (log
// buffers) are handled in the client.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace busbar::wire {

struct JitOption {
  uint32_t option;  // CUjit_option
  uint32_t reserved;
  uint64_t value;
};
constexpr uint32_t kMaxJitOptions = 64;  // more than CUDA has
// Bytes of each log in a reply, with the terminating zero: if the program asks for less, and most.
constexpr uint32_t kJitLogBytes = 8192, kMaxJitLogBytes = 16u << 20;

// Return whether the value of a CUjit_option is a number rather than an address.
inline bool is_number(uint32_t option) {
  switch (option) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_THREADS_PER_BLOCK:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CUCONTEXT:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES: return true;
    default: return false;
  }
}

}  // namespace busbar::wire
