// The question of NVIDIA's runtime library whether it talks to NVIDIA's driver, as the client
// library forwards it. See docs/nvidia.md.
#pragma once
#include <cstdint>

namespace busbar::wire {

struct SelfTestDevice {
  uint8_t uuid[16];
  int32_t domain, bus, slot;
};
static_assert(sizeof(SelfTestDevice) == 28);

// Facts about the process of the runtime library, on which the answer depends.
struct SelfTestQuestion {
  uint32_t driver_version, version, pid, thread;
  uint64_t runtime_table, integrity_table, integrity_function, seconds;
};
static_assert(sizeof(SelfTestQuestion) == 48);

}  // namespace busbar::wire
