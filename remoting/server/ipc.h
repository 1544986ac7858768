// Memory and events that one session shares with another session of the same allocation.
//
// Thread safety: any thread.
#pragma once
#include <sys/types.h>

#include "server/session.h"
#include "wire/format.h"

namespace busbar::server {

// Returns a descriptor of the event that `token` names, or of the lease at its offset with the size
// of that, for the session server `requester`. -1 if the token is unknown or the process holds no
// session of this allocation.
int export_shared(Session& s, const wire::IpcToken& token, pid_t requester, uint64_t& bytes);

}  // namespace busbar::server
