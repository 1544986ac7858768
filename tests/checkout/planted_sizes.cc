// Sizes as in the session server, for test_size_check.py. A line with "finding" must be reported.
#include <cstdint>

#include "checked_size.h"

struct Decoder {
  template <typename T>
  T get() {
    return T{};
  }
};

uint64_t product(Decoder& in) {
  auto width = in.get<uint64_t>(), height = in.get<uint64_t>();
  return width * height;  // finding
}
uint64_t array_bytes(Decoder& in) {
  auto count = in.get<uint64_t>();
  return count * sizeof(uint32_t);  // finding
}
uint32_t narrow_product(Decoder& in) {
  auto x = in.get<uint32_t>(), y = in.get<uint32_t>();
  return x * y;  // finding
}
uint64_t scaled(Decoder& in) {
  auto size = in.get<uint64_t>();
  size *= 4;  // finding
  return size;
}
uint64_t range_end(Decoder& in) {
  auto at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  return at + bytes;  // finding
}
uint64_t narrow_array_bytes(Decoder& in) {
  auto count = in.get<uint32_t>();
  return count * sizeof(uint32_t);
}
uint64_t checked(Decoder& in) {
  CheckedSize width = in.get<uint64_t>(), height = in.get<uint64_t>();
  return (width * height + in.get<uint64_t>()).value();
}
