// The control socket of the launcher: the agent sends grants and reads sessions.
//
// Thread safety: serve_agent() never returns and serves one connection at a time.
#pragma once
#include "launcher/sessions.h"

namespace busbar::launcher {

[[noreturn]] void serve_agent(int listener, Grants& grants, Sessions& sessions, Arbiters& arbiters,
                              int data_port);

}  // namespace busbar::launcher
