// Failpoints: switches BUSBAR_FAILPOINT_NAME in the environment, by which tests turn a protection
// off or stop a program at a step, to show that they would notice. Programs that are shipped have
// none. tests/failpoints/failpoints.cc, linked in front, replaces these functions in programs of
// tests.
//
// Thread safety: any thread.
#pragma once
#include <string>

namespace busbar::control {

// Returns the value of the switch with this name, or null if it is not set.
const char* failpoint(const char* name);

// Returns whether an entry of an environment is a switch.
bool is_failpoint(const std::string& entry);

}  // namespace busbar::control
