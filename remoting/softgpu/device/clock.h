// The clocks.
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

// Return the time in nanoseconds that the processor spent on this thread: without the time in which
// the thread was descheduled.
inline uint64_t thread_time() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the thread
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

}  // namespace softgpu
