// The reason for which a session has ended.
//
// Thread safety: any thread.
#pragma once
#include <optional>
#include <string>

namespace busbar::launcher {

// Returns the reason from what the launcher has noted, which may be empty, and from the exit status
// of the session server, if it is known. A session server may be in the hands of its client, so its
// exit code counts only where the launcher knows nothing: it has noted no reason, and a session
// that `has_started` did not fail at its start.
std::string reason_of_end(std::optional<int> status, const std::string& noted, bool has_started);

}  // namespace busbar::launcher
