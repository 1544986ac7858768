// The data port: accepts connections of client libraries, checks their tickets and opens sessions.
//
// Thread safety: serve_clients() never returns; it starts a thread for each connection whose client
// has proved its key, within limits.
#pragma once
#include "launcher/sessions.h"

namespace busbar::launcher {

// Listens on `port`, or on the next free one of a hundred, and sets it. Returns -1 on failure.
int listen_on_port(const std::string& address, int& port);

[[noreturn]] void serve_clients(int listener, Grants& grants, Sessions& sessions);

}  // namespace busbar::launcher
