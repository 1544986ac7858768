// PTX texts that the linker joins to one.
#pragma once
#include <string>
#include <vector>

namespace softgpu {

// Join texts. The result carries the limit of 32-bit registers of a thread; 0: no limit.
std::string link_ptx(const std::vector<std::string>& inputs, int max_registers);
// Return the limit that PTX carries, 255 if it carries none.
int max_registers_of(const std::string& ptx);

}  // namespace softgpu
