#include "control/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace busbar::control {

namespace {
// More than one session may have. The limit also counts descriptors on their way in all sockets of
// a user, and a session of the same user must not be able to use them up.
constexpr rlim_t kDescriptors = 16'384;
}  // namespace

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= kDescriptors) return;
  limit.rlim_cur = std::min<rlim_t>(kDescriptors, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace busbar::control
