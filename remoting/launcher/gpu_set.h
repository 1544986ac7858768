// The GPUs of an allocation: a session server of other GPUs cannot serve it.
//
// Thread safety: value types.
#pragma once
#include <algorithm>
#include <array>
#include <set>

#include "control/messages.h"

namespace busbar::launcher {

using GpuUuid = std::array<uint8_t, 16>;
using GpuSet = std::set<GpuUuid>;

inline GpuSet gpus_of(const control::Allocation& allocation) {
  GpuSet gpus;
  for (uint32_t p = 0; p < allocation.partitions; ++p) {
    GpuUuid uuid;
    std::copy_n(allocation.partition[p].gpu_uuid, uuid.size(), uuid.begin());
    gpus.insert(uuid);
  }
  return gpus;
}

}  // namespace busbar::launcher
