// Hexadecimal text of bytes, as it stands in paths and logs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace busbar::control {

inline std::string hex(const uint8_t* p, size_t n) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    out += kDigits[p[i] >> 4];
    out += kDigits[p[i] & 15];
  }
  return out;
}

}  // namespace busbar::control
