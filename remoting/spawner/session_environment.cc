#include "spawner/session_environment.h"

#include <algorithm>

#include "control/failpoints.h"

extern char** environ;

namespace busbar::spawner {

namespace {
// Names end with "=", beginnings of names do not.
const std::string kPassed[] = {
    "PATH=",
    "LANG=",
    "LD_LIBRARY_PATH=",  // the driver and the C compiler
    "CUDA_",
    "NVIDIA_",
    "__NV",             // NVIDIA's driver
    "BUSBAR_SOFTGPU_",  // the software GPUs
    "ASAN_OPTIONS=",
    "LSAN_OPTIONS=",
    "TSAN_OPTIONS=",  // sanitized builds
    "UBSAN_OPTIONS=",
    "NULL_DRIVER_",  // tests
};

bool is_passed(const std::string& entry) {
  return control::is_failpoint(entry) ||
         std::ranges::any_of(kPassed, [&](auto& name) { return entry.starts_with(name); });
}

bool has_name_of(const std::string& entry, const std::vector<std::string>& entries) {
  std::string name = entry.substr(0, entry.find('=') + 1);
  return std::ranges::any_of(entries, [&](auto& other) { return other.starts_with(name); });
}
}  // namespace

std::vector<std::string> session_environment(const std::vector<std::string>& changed) {
  std::vector<std::string> list = changed;
  for (char** e = environ; *e; ++e)
    if (is_passed(*e) && !has_name_of(*e, changed)) list.emplace_back(*e);
  return list;
}

}  // namespace busbar::spawner
