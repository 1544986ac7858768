// TCP sockets: connecting, options, and waiting for readiness.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <string>

namespace busbar::transport {

// Sets the options of every connection: no delay for small writes, keep-alive probes against idle
// middleboxes, and detection of a vanished peer within 105 seconds.
void tune_tcp(int fd);

// Lets the end of this process, or a close, reset the connection in place of finishing it. The peer
// then sees the end also if it does not read: otherwise the end comes behind the unread bytes, for
// which its buffer may have no room.
void reset_at_end(int fd, bool resets);
// Return whether the peer's machine has received all that was sent.
bool is_all_received(int fd);

// Connects to the first reachable address of a host. Returns a non-blocking tuned socket, or -1
// with the reason in `error`. Blocks for at most `timeout_ms` for each address.
int connect_tcp(const std::string& address, int port, int timeout_ms, std::string& error);

// Return whether both ends of a connection have the same IP address.
bool is_local_connection(int fd);

// Waits until the socket is readable, or writable with `writing`. Returns false at the timeout.
bool socket_ready(int fd, bool writing, int timeout_ms);

}  // namespace busbar::transport
