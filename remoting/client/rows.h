// Host memory as rows and slices: the host side of 2D and 3D copies.
#pragma once
#include <cstdint>
#include <cstring>

#include "checked_size.h"

namespace busbar::client {

// All sizes are in bytes, except `rows` (for each slice) and `slices`. Offsets count the packed
// bytes, without the gaps between rows and slices.
struct Rows {
  uint8_t* base = nullptr;
  uint64_t row_bytes = 0, pitch = 0, rows = 1, slice_pitch = 0, slices = 1;

  static Rows flat(void* p, uint64_t bytes) { return {(uint8_t*)p, bytes, bytes, 1, bytes, 1}; }
  uint64_t bytes() const { return (CheckedSize(row_bytes) * rows * slices).value(); }
  // From the first to the last byte, with the gaps.
  uint64_t span() const {
    return ((CheckedSize(slices) - 1) * slice_pitch + (CheckedSize(rows) - 1) * pitch + row_bytes)
        .value();
  }
  bool packed() const {
    return (rows == 1 || pitch == row_bytes) &&
           (slices == 1 || slice_pitch == (CheckedSize(row_bytes) * rows).value());
  }

  // Calls f(host, n) for each contiguous piece of the packed range [offset, offset + n).
  template <typename F>
  void pieces(uint64_t offset, uint64_t n, F f) const {
    if (packed()) {
      if (n) f(base + offset, n);
      return;
    }
    while (n) {
      uint64_t row = offset / row_bytes, x = offset % row_bytes;
      uint64_t k = row_bytes - x < n ? row_bytes - x : n;
      CheckedSize at = CheckedSize(row / rows) * slice_pitch + CheckedSize(row % rows) * pitch + x;
      f(base + at.value(), k);
      offset += k;
      n -= k;
    }
  }
};

}  // namespace busbar::client
