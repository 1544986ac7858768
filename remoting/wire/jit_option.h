// Options of the compiler that travel with a load or a link: those that are numbers. Buffers stay
// where they are.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace busbar::wire {

struct JitOption {
  uint32_t option, zero;
  uint64_t value;
};
constexpr uint32_t kMaxJitOptions = 16;

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
