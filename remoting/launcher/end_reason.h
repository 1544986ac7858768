// Why a session has ended.
//
// Thread safety: any thread.
#pragma once
#include <optional>
#include <string>

namespace busbar::launcher {

// Returns the reason from the exit status of the session server, if it is known, and from what the
// launcher has noted before, which may be empty. A session server that ends by itself keeps its
// own reason, also if the launcher was about to end it.
std::string reason_of_end(std::optional<int> status, const std::string& noted);

}  // namespace busbar::launcher
