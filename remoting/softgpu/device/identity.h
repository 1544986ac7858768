// Who a software GPU is: of this machine and index, the same for driver and NVML.
#pragma once
#include <array>
#include <string>

namespace softgpu {
std::array<unsigned char, 16> uuid_of(int index);
std::string uuid_text(int index);  // "GPU-…" as NVML spells it
}  // namespace softgpu
