// Requests to session servers. A session server may be stopped, silent or hostile, so none of these
// waits for one longer than its caller permits.
//
// Thread safety: any thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "control/messages.h"

namespace busbar::launcher {

// The control socket of a session server.
struct SessionAddress {
  std::string path;
  pid_t pid = -1;  // the process that must listen there
};

// Sends a request that has no reply. Does not block. False if the session server cannot take it.
bool post_request(const SessionAddress& to, control::Kind kind, const void* body, uint32_t bytes,
                  int attached_fd = -1);

struct StatusQuery {
  std::string session;  // its id, in hexadecimal
  SessionAddress address;
  bool has_answered = false;
  control::SessionStatus status{};  // as the session claims
};

// Asks all sessions for their status, then reads the answers. Blocks until all have answered or the
// timeout.
void read_statuses(std::vector<StatusQuery>& queries, int timeout_ms);

}  // namespace busbar::launcher
