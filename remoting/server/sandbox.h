// Privileges that a session server gives up before it reads the first byte of a client.
#pragma once
#include "server/system_calls.h"

namespace busbar::server {

// The measures that are in effect.
struct Isolation {
  bool seccomp = false;
  bool no_new_privs = false;
  bool resource_limits = false;
  // Reports other system calls than the permitted ones to its reader, which must end the process.
  // -1 if the kernel ends the process itself.
  int violations = -1;
};

// Permits all threads a fixed set of system calls and denies others access to this process. Called
// once, after the driver is initialised. A measure that fails is missing in the result.
Isolation enter_sandbox(DriverKind driver);

// Called after the last message with a descriptor to the launcher: the limit also counts those on
// their way in all sockets of the user, so a session of the same user could prevent the message.
bool limit_descriptors();

}  // namespace busbar::server
