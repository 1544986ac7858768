// Names of variables and functions that a PTX text keeps for itself, in texts that are linked.
#pragma once
#include <string>
#include <vector>

namespace softgpu {

// Rename what has no linkage (.visible, .weak, .common or .extern) where another text has the same
// name with linkage, or an earlier text without. nvcc calls the strings of each text $str. The
// first keeps its name, so that cuModuleGetGlobal finds it.
std::vector<std::string> with_distinct_names(const std::vector<std::string>& texts);

}  // namespace softgpu
