// Privileges of the spawner and of the processes that it starts.
//
// Thread safety: for processes with one thread.
#pragma once

namespace busbar::spawner {

// Gives this process the right to make namespaces: as root it has it, otherwise it enters a user
// namespace of its own, with a mount namespace. False if the system permits neither.
bool gain_namespace_rights();

// Gives up all capabilities for good.
bool drop_capabilities();

}  // namespace busbar::spawner
