#include "launcher/end_reason.h"

#include <string.h>
#include <sys/wait.h>

#include "control/session_ends.h"

namespace busbar::launcher {

static bool is_of_start(int exit_code) {
  auto end = (control::SessionEnd)exit_code;
  return end == control::SessionEnd::start_failed || end == control::SessionEnd::node_failed;
}

std::string reason_of_end(std::optional<int> status, const std::string& noted, bool has_started) {
  if (!noted.empty()) return noted;
  if (status && WIFEXITED(*status)) {
    int code = WEXITSTATUS(*status);
    const char* own = control::reason_of(code);
    if (own && !(has_started && is_of_start(code))) return own;
    return "the session server ended with code " + std::to_string(code) +
           "; see the launcher's log";
  }
  if (status && WIFSIGNALED(*status))
    return std::string("the session server was ended by signal ") + strsignal(WTERMSIG(*status));
  return control::kEnded;
}

}  // namespace busbar::launcher
