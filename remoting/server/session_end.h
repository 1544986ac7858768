// The end of a session server.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <string>

#include "control/session_ends.h"
#include "server/link.h"

namespace busbar::server {

// The exit code, by which the launcher knows the reason, and a text for the log.
struct Ending {
  control::SessionEnd end = control::SessionEnd::closed;
  std::string text;
};

// Ends the process at once: threads may still wait for the driver, and the kernel frees everything.
// If several threads end it, the reason is that of the first one.
[[noreturn]] void end_process(const Ending& ending);
// Tells the client the text and the error of all its calls from now on, and ends the process.
[[noreturn]] void end_session(Link& link, CUresult error, const Ending& ending);
// Ends the process a few seconds after its client has gone, also when a thread waits in the driver
// that would have noticed: for room in the queue of an endless kernel, for example.
void end_with_client(const Link& link);

}  // namespace busbar::server
