// The sockets that a session server gets with its start message.
//
// The launcher binds those with names: the cage shows their folder read-only. A session server that
// could bind sockets there would fill the file system of the node with their files, or take the
// names of other sessions of its allocation.
//
// Thread safety: the functions are for any thread; a connection belongs to one thread at a time.
#pragma once
#include <cstdint>

#include "control/messages.h"

namespace busbar::control {

struct SessionSockets {
  int client = -1;      // its connection
  int requests = -1;    // bound: requests of the launcher
  int offers = -1;      // bound: offers of other sessions
  int rendezvous = -1;  // a connection to the client's socket for shared memory; -1: it has none
};

// The message of a bound socket. Two of them follow the start message: requests, offers.
constexpr auto kBoundSocket = (Kind)212;

// Sends the start message, with `rendezvous` set, and the sockets.
bool send_start(int fd, SessionStart& start, const SessionSockets& sockets, int64_t deadline_ms);
// Receives both, and listens at the socket for requests. False if they are not valid; the caller
// then closes what it has got. Blocks until they come.
bool receive_start(int fd, SessionStart& start, SessionSockets& sockets);

}  // namespace busbar::control
