#include "softgpu/jit/limits.h"

#include <time.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

namespace softgpu::jit {

uint64_t limit(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  uint64_t value = text && *text ? std::strtoull(text, nullptr, 10) : 0;
  return value ? std::min(value, otherwise) : otherwise;
}

uint64_t request_milliseconds() {
  // NOLINTNEXTLINE(custom-unchecked-product): at most kRequestSeconds
  return limit("BUSBAR_SOFTGPU_COMPILE_SECONDS", kRequestSeconds) * 1000;
}

int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  // NOLINTNEXTLINE(custom-unchecked-product): time since the start of the machine
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
}

int time_left_ms(int64_t deadline_ms) {
  return (int)std::clamp<int64_t>(deadline_ms - now_ms(), 0, INT_MAX);
}

}  // namespace softgpu::jit
