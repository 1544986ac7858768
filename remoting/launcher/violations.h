// Reports of the kernel about a session server that makes a system call which it may not make. The
// call does not take place: the thread waits until the process is killed.
//
// Thread safety: any thread. No function blocks.
#pragma once
#include <string>

namespace busbar::launcher {

// Returns the name of the system call that `listener` reports; empty if there is none.
std::string take_violation(int listener);

}  // namespace busbar::launcher
