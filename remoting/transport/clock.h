// Monotonic time for deadlines.
//
// Thread safety: any thread.
#pragma once
#include <time.h>

#include <cstdint>

namespace busbar::transport {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return (int64_t)t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

inline int64_t now_ms() {
  return now_ns() / 1'000'000;
}

}  // namespace busbar::transport
