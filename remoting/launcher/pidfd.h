// A process by descriptor: unlike a pid, it never names a later process.
//
// Thread safety: any thread. No function blocks.
#pragma once
#include <sys/types.h>

#include <cstdint>

namespace busbar::launcher {

int open_pidfd(pid_t pid);  // -1 if there is no such process
bool has_ended(int pidfd);  // also true for -1
void kill_process(int pidfd);

// Returns the start time of a process in clock ticks since boot; 0 if there is none.
uint64_t process_start_time(pid_t pid);
// Returns whether a process has begun to exit, by itself or by a signal. Its exit status is
// decided.
bool is_exiting(pid_t pid);

}  // namespace busbar::launcher
