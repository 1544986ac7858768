// Enumerations of cuda.h in what a client sent.
//
// C++ leaves the behaviour undefined if such an enumeration gets a value out of its range, so each
// is read as a number and compared with the values that cuda.h names before it is stored as what
// it is. The decoder refuses to read one in another way.
//
// Thread safety: constant.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "wire/decode.h"

namespace busbar::wire {

// The values of an enumeration, generated from cuda.h. Structures have none.
template <typename E>
inline constexpr auto kValuesOf = nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "enumerations.inc"
#pragma GCC diagnostic pop

template <typename E>
constexpr bool is_value(uint32_t n) {
  return std::ranges::find(kValuesOf<E>, (int64_t)n) != kValuesOf<E>.end();
}

// True if a field of a client's structure has a value of its enumeration.
template <typename E>
bool has_value(const E& field) {
  uint32_t n;
  static_assert(sizeof field == sizeof n);
  std::memcpy(&n, &field, sizeof n);
  return is_value<E>(n);
}

// Reads a number or structure, or an enumeration: then another value makes ok() false.
template <typename T>
T take(Decoder& in) {
  if constexpr (OpenEnumeration<T>) {
    uint32_t n = in.get<uint32_t>();
    if (is_value<T>(n)) return (T)n;
    in.refuse();
    return T{};
  } else {
    return in.get<T>();
  }
}

}  // namespace busbar::wire
