// Monotonic time for deadlines.
//
// Thread safety: any thread.
#pragma once
#include <time.h>

#include <cstdint>

namespace busbar::transport {

inline int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

}  // namespace busbar::transport
