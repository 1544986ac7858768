// Failpoints of the programs that only tests start.
#include "control/failpoints.h"

#include <cstdlib>

namespace busbar::control {

namespace {
const std::string kPrefix = "BUSBAR_FAILPOINT_";
}

const char* failpoint(const char* name) {
  return std::getenv((kPrefix + name).c_str());
}

bool is_failpoint(const std::string& entry) {
  return entry.starts_with(kPrefix);
}

}  // namespace busbar::control
