// Attributes of texture and surface objects (txq, suq).
//
// Thread safety: an object does not change after its creation; worker threads query it.
#pragma once
#include <cstdint>

#include "softgpu/device/cta.h"

namespace softgpu {

// Get an attribute. Return false if the handle is no texture, or no surface.
bool query_object(uint64_t handle, const ObjectQuery& query, uint32_t& value);

}  // namespace softgpu
