// Comparison of two copies of memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace busbar::client {

// Calls f(offset, n) for each run of units that differ. Units are aligned to the addresses of `a`.
template <typename F>
void differences(const uint8_t* a, const uint8_t* b, uint64_t bytes, uint64_t unit, F f) {
  auto unit_at = [&](uint64_t at) { return std::min(unit - ((uint64_t)a + at) % unit, bytes - at); };
  for (uint64_t at = 0; at < bytes;) {
    uint64_t n = unit_at(at);
    if (!std::memcmp(a + at, b + at, n)) {
      at += n;
      continue;
    }
    uint64_t end = at + n;
    while (end < bytes && std::memcmp(a + end, b + end, unit_at(end))) end += unit_at(end);
    f(at, end - at);
    at = end;
  }
}

}  // namespace busbar::client
