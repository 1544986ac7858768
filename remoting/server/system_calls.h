// The system calls that a session server may make once it has started, as seccomp programs.
#pragma once
#include <linux/filter.h>

#include <vector>

namespace busbar::server {

enum class DriverKind { software_gpu, nvidia };

// Returns the program that permits the calls of a session server of this process. `otherwise` is
// the action for all other calls.
std::vector<sock_filter> session_filter(DriverKind kind, unsigned otherwise);

}  // namespace busbar::server
