// The end of a session server.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <string>

#include "server/link.h"

namespace busbar::server {

// Ends the process at once: threads may still wait for the driver, and the kernel frees everything.
[[noreturn]] void end_process(const std::string& reason, int code);
// Tells the client the error of all its calls from now on, and ends the process.
[[noreturn]] void end_session(Link& link, CUresult error, const std::string& reason);
// Ends the process a few seconds after its client has gone, also when a thread waits in the driver
// that would have noticed: for room in the queue of an endless kernel, for example.
void end_with_client(const Link& link);

}  // namespace busbar::server
