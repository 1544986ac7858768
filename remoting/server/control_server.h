// The sockets of a session server for requests. The launcher, this one or one that is started
// later, reads the status, passes bulk connections and ends the session; other session servers of
// the allocation offer connections on which they request shared memory.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "server/executor.h"
#include "transport/tls.h"

namespace busbar::server {

struct ControlServer {
  int listener, offers;
  Session& session;
  Executor& executor;
  transport::Secret key;  // of the session's TLS
  uid_t launcher;         // its user, as this process sees it
};

// Serves each socket on a thread of its own until the process ends.
void start_control_server(const ControlServer& server);

}  // namespace busbar::server
