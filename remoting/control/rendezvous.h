// Rendezvous of client and session server on one machine.
//
// The client listens on an abstract Unix socket with a random name, which travels only over the TLS
// connection to the launcher. Both ends prove that they hold the key of the session: the server
// when it connects, the client when it sends the memory file.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "transport/shared_memory.h"
#include "transport/tls.h"

namespace busbar::control {

using RendezvousName = std::array<uint8_t, 16>;  // all zero: none

// Client: creates the socket and its name. Returns a descriptor, or -1 with a zero name.
int listen_for_session_server(RendezvousName& name);

// Server: connects and sends its proof. Returns a descriptor, or -1 when no client of this machine
// listens under the name. Does not block.
int connect_to_client(const RendezvousName& name, const transport::Secret& key);

// Client: accepts connections that wait on `listener` until one proves the key, and sends it the
// memory file. Returns false when none did. Blocks for at most 200 ms for each connection.
bool send_shared_memory(int listener, const transport::Secret& key, int memory);

// Server: receives and maps the client's memory; closes `rendezvous`. Returns null when the proof
// is wrong or the timeout has passed.
std::unique_ptr<transport::SharedMemory> receive_shared_memory(int rendezvous,
                                                               const transport::Secret& key,
                                                               int timeout_ms);

}  // namespace busbar::control
