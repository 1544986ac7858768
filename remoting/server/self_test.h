// The self-test by which NVIDIA's runtime library checks that it talks to NVIDIA's driver. An
// answer is computed only after the driver of the node has passed the same test in this process.
// See docs/nvidia.md.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace busbar {

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

std::array<uint64_t, 2> self_test_answer(const SelfTestQuestion& q,
                                         const std::vector<SelfTestDevice>& devices);

}  // namespace busbar
