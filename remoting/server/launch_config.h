// The launch configuration as it stands in records.
#pragma once
#include <cuda.h>

#include "wire/decode.h"
#include "wire/launch_attribute.h"
#include "wire/launch_fields.h"

namespace busbar::server {

// Returns the configuration for the driver, without attributes. Their number is not checked.
inline CUlaunchConfig driver_config(const wire::LaunchConfig& c) {
  return {c.grid[0],  c.grid[1],      c.grid[2], c.block[0], c.block[1],
          c.block[2], c.shared_bytes, nullptr,   nullptr,    c.attributes};
}

// The attributes of a launch, of which the driver gets only fields that the table permits.
class LaunchAttributes {
 public:
  // Reads the attributes of `config`, at most wire::kMaxLaunchAttributes, and sets its pointer.
  // Returns an error for an attribute that is not permitted.
  CUresult read(wire::Decoder& in, CUlaunchConfig& config) {
    CUresult refused = CUDA_SUCCESS;
    for (uint32_t i = 0; i < config.numAttrs && in.ok(); ++i) {
      auto given = in.get<wire::RawAttribute>();
      CUresult r = wire::keep_fields(given.id, wire::AttributeUse::launch, given.value);
      list_[i] = {r ? CU_LAUNCH_ATTRIBUTE_IGNORE : (CUlaunchAttributeID)given.id, {}, given.value};
      if (r) refused = r;
    }
    config.attrs = list_;
    return refused;
  }

 private:
  CUlaunchAttribute list_[wire::kMaxLaunchAttributes];
};

}  // namespace busbar::server
