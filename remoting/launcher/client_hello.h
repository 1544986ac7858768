// The first TLS record of a client, which must have arrived before a thread serves the connection.
//
// The record stays in the socket for TLS. Thread safety: any thread, one at a time for a socket.
#pragma once

namespace busbar::launcher {

enum class ClientHello { complete, missing, invalid };

// Looks at what has arrived. While bytes are missing, the socket becomes readable only when all of
// them are there. `has_ended`: the client sends nothing more.
ClientHello await_client_hello(int fd, bool has_ended);

}  // namespace busbar::launcher
