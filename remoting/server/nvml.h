// The node's NVML, loaded beside its driver before the sandbox closes.
#pragma once
#include <string>

namespace busbar::server {

void load_nvml(const std::string&
                   driver_path);  // quietly without one: then only memory and processes are known

}  // namespace busbar::server
