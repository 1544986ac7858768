// The fixed fields of a launch record.
#pragma once
#include <cstdint>

namespace busbar::wire {

struct LaunchConfig {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  uint32_t attributes;  // number of them
};

// They come before the attributes and the parameters.
struct LaunchFields {
  uint32_t function;
  LaunchConfig config;
  uint32_t parameter_bytes;
  uint32_t reserved;  // 0
};

}  // namespace busbar::wire
