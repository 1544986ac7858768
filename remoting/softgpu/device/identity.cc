#include "softgpu/device/identity.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace softgpu {

// The UUID: "softgpu", a hash of the machine ID, the index.
std::array<unsigned char, 16> uuid_of(int index) {
  std::array<unsigned char, 16> out{};
  std::memcpy(out.data(), "softgpu", 7);
  uint64_t h = 1469598103934665603ull;
  if (FILE* f = std::fopen("/etc/machine-id", "r")) {
    int c;
    // NOLINTNEXTLINE(custom-unchecked-product): a hash wraps
    while ((c = std::fgetc(f)) != EOF) h = (h ^ (uint64_t)c) * 1099511628211ull;
    std::fclose(f);
  }
  std::memcpy(out.data() + 7, &h, 8);
  out[15] = (unsigned char)index;
  return out;
}

std::string uuid_text(int index) {
  auto b = uuid_of(index);
  char text[48];
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return text;
}

}  // namespace softgpu
