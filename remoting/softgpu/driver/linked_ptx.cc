#include "softgpu/driver/linked_ptx.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "softgpu/driver/local_names.h"

namespace softgpu {

// The first line of linked PTX carries the limit of registers.
constexpr std::string_view kMaxRegistersLine = "// softgpu max registers ";
constexpr int kDefaultMaxRegisters = 255;

int max_registers_of(const std::string& ptx) {
  if (ptx.rfind(kMaxRegistersLine, 0) != 0) return kDefaultMaxRegisters;
  return std::clamp(std::atoi(ptx.c_str() + kMaxRegistersLine.size()), 8, kDefaultMaxRegisters);
}

// Later inputs follow the first without their header lines.
static std::string join(const std::vector<std::string>& inputs) {
  std::string out;
  for (auto& text : inputs) {
    size_t from = 0;
    if (!out.empty())
      if (size_t at = text.find(".address_size"); at != std::string::npos)
        from = text.find('\n', at);
    out += text.substr(std::min(from, text.size())) + "\n";
  }
  return out;
}

std::string link_ptx(const std::vector<std::string>& inputs, int max_registers) {
  std::string joined = join(with_distinct_names(inputs));
  if (max_registers <= 0) return joined;
  return std::string(kMaxRegistersLine) + std::to_string(max_registers) + "\n" + joined;
}

}  // namespace softgpu
