// The NVML library of the node.
//
// Thread safety: load_nvml() is called once, before other threads start.
#pragma once
#include <string>

namespace busbar::server {

// Loads the NVML library in the folder of the driver, before the sandbox is entered. Without one,
// samples contain memory and processes only.
void load_nvml(const std::string& driver_path);

}  // namespace busbar::server
