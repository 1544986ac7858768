// Connections between session servers without connect(2). No session server may call it: on the
// client's TCP connection it would reach the network of the machine, which is not that of the cage.
// Instead a process creates a pair of sockets and sends one of them to a datagram socket.
//
// Thread safety: any thread.
#pragma once

namespace busbar::control {

int receive_offers_at(const char* path);  // replaces a stale socket; -1 on failure
// Waits for the next offer. Returns the connection; -1 if the datagram has none.
int take_offer(int socket);
// Returns a connection to the process that receives offers at a path; -1 if it takes none in time.
int offer_to(const char* path, int timeout_ms);

}  // namespace busbar::control
