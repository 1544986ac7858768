#include "spawner/children.h"

#include <sys/wait.h>

namespace busbar::spawner {

void collect_children(CacheTrimmer& trimmer, Sessions& sessions) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    if (!trimmer.has_ended(pid)) sessions.has_ended(pid, status);
  sessions.remove_empty_groups();
}

}  // namespace busbar::spawner
