// What a session server gives up before it reads a client's first byte.
#pragma once
#include <string>

namespace busbar::server {

struct Isolation {
  bool seccomp = false, no_new_privs = false, resource_limits = false;
};

// After the driver is initialised: no new programs, no tracing, no mounts, no privileges.
Isolation enter_sandbox();
std::string describe(const Isolation& i);  // one line for the launcher: "seccomp=1 …"

}  // namespace busbar::server
