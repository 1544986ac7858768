// NVIDIA's runtime asks a driver to prove that it is one. We never prove that by ourselves: the
// node's own driver must pass the same test first, in this process. See docs/nvidia.md.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace busbar {

struct ValidityDevice {
  uint8_t uuid[16];
  int32_t domain, bus, slot;
};
static_assert(sizeof(ValidityDevice) == 28);

// What the test's answer depends on: facts about the process that asks.
struct ValidityQuestion {
  uint32_t driver_version, version, pid, thread;
  uint64_t runtime_table, integrity_table, integrity_function, seconds;
};
static_assert(sizeof(ValidityQuestion) == 48);

std::array<uint64_t, 2> validity_answer(const ValidityQuestion& q,
                                        const std::vector<ValidityDevice>& devices);

}  // namespace busbar
