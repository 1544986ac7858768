// The launch configuration as it stands in records.
#pragma once
#include <cuda.h>

#include "wire/decode.h"
#include "wire/launch_attribute.h"

namespace busbar::server {

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

// The attributes of a launch, of which the driver gets only fields that the table permits.
class LaunchAttributes {
 public:
  // Reads the attributes of `config`, at most wire::kMaxLaunchAttributes, and sets its pointer.
  // Returns an error for an attribute that is not permitted.
  CUresult read(wire::Decoder& in, CUlaunchConfig& config) {
    CUresult refused = CUDA_SUCCESS;
    for (uint32_t i = 0; i < config.numAttrs && in.ok(); ++i) {
      auto given = in.get<CUlaunchAttribute>();
      list_[i] = {given.id, {}, given.value};
      CUresult r = wire::keep_fields(given.id, wire::AttributeUse::launch, list_[i].value);
      if (r) refused = r;
    }
    config.attrs = list_;
    return refused;
  }

 private:
  CUlaunchAttribute list_[wire::kMaxLaunchAttributes];
};

}  // namespace busbar::server
