#include "softgpu/device/identity.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "softgpu/device/device_config.h"

namespace softgpu {

// The UUID: "softgpu", a hash of machine ID and folder of the device files, the index. Software
// GPUs with another folder have memory and turns of their own, so they are other GPUs.
std::array<unsigned char, 16> uuid_of(int index) {
  std::array<unsigned char, 16> out{};
  std::memcpy(out.data(), "softgpu", 7);
  uint64_t h = 1469598103934665603ull;
  auto add = [&h](int c) {
    // NOLINTNEXTLINE(custom-unchecked-product): a hash wraps
    h = (h ^ (uint64_t)c) * 1099511628211ull;
  };
  if (FILE* f = std::fopen("/etc/machine-id", "r")) {
    int c;
    while ((c = std::fgetc(f)) != EOF) add(c);
    std::fclose(f);
  }
  for (unsigned char c : state_directory()) add(c);
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
