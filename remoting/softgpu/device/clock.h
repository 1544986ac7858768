// The monotonic clock.
#pragma once
#include <time.h>

#include <cstdint>

namespace softgpu {

// Return the monotonic time in nanoseconds.
inline uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

}  // namespace softgpu
