// Names of variables and functions that a PTX text keeps for itself, in texts that are linked.
#pragma once
#include <string>
#include <vector>

namespace softgpu {

// Rename what has no linkage (.visible, .weak, .common or .extern) where another text defines the
// same name. nvcc calls the strings of each text $str.
std::vector<std::string> with_distinct_names(const std::vector<std::string>& texts);

}  // namespace softgpu
