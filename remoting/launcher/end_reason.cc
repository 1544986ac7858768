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
  bool exited = status && WIFEXITED(*status);
  const char* own = exited ? control::reason_of(WEXITSTATUS(*status)) : nullptr;
  if (own && !(has_started && is_of_start(WEXITSTATUS(*status)))) return own;
  if (exited)
    return "the session server ended with code " + std::to_string(WEXITSTATUS(*status)) +
           "; see the launcher's log";
  if (status && WIFSIGNALED(*status))
    return std::string("the session server was ended by signal ") + strsignal(WTERMSIG(*status));
  return control::kEnded;
}

}  // namespace busbar::launcher
