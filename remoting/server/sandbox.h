// Privileges that a session server gives up before it reads the first byte of a client.
#pragma once
namespace busbar::server {

// The measures that are in effect.
struct Isolation {
  bool seccomp = false;
  bool no_new_privs = false;
  bool resource_limits = false;
};

// Denies new programs, tracing, mounts and privileges to all threads. Called once, after the driver
// is initialised. A measure that fails is missing in the result.
Isolation enter_sandbox();

}  // namespace busbar::server
