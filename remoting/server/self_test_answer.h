// The answer to the self-test of NVIDIA's runtime library. It is computed only after the driver of
// the node has passed the same test in this process. See docs/nvidia.md.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "wire/self_test.h"

namespace busbar {

std::array<uint64_t, 2> self_test_answer(const wire::SelfTestQuestion& q,
                                         const std::vector<wire::SelfTestDevice>& devices);

}  // namespace busbar
