// The environment of session servers and compilers: what a tenant's native code may read. The
// spawner's own may have more, such as keys of other services.
//
// Thread safety: for one thread.
#pragma once
#include <string>
#include <vector>

namespace busbar::spawner {

// Returns the variables of this process that sessions need, without those in `changed`, and
// `changed`. Entries have the form NAME=VALUE.
std::vector<std::string> session_environment(const std::vector<std::string>& changed);

}  // namespace busbar::spawner
