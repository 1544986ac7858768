// The launch configuration as it stands in records.
#pragma once
#include <cuda.h>

#include "wire/decode.h"

namespace busbar::server {

constexpr uint32_t kMaxLaunchAttributes = 8;

// Reads grid, block, shared bytes and the number of attributes, which is not checked.
inline CUlaunchConfig read_launch_config(wire::Decoder& in) {
  CUlaunchConfig config{};
  config.gridDimX = in.get<uint32_t>();
  config.gridDimY = in.get<uint32_t>();
  config.gridDimZ = in.get<uint32_t>();
  config.blockDimX = in.get<uint32_t>();
  config.blockDimY = in.get<uint32_t>();
  config.blockDimZ = in.get<uint32_t>();
  config.sharedMemBytes = in.get<uint32_t>();
  config.numAttrs = in.get<uint32_t>();
  return config;
}

}  // namespace busbar::server
