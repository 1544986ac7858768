// Identity of a software GPU: a function of the machine, the folder of the device files and the
// index, the same for driver and NVML.
#pragma once
#include <array>
#include <string>

namespace softgpu {
std::array<unsigned char, 16> uuid_of(int index);
std::string uuid_text(int index);  // "GPU-…", as in NVML
}  // namespace softgpu
