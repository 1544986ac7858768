#include "launcher/pidfd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace busbar::launcher {

int open_pidfd(pid_t pid) {
  return (int)syscall(SYS_pidfd_open, pid, 0u);  // closed on exec by definition
}

bool has_ended(int pidfd) {
  pollfd p{pidfd, POLLIN, 0};
  return pidfd < 0 || poll(&p, 1, 0) > 0;
}

void kill_process(int pidfd) {
  if (pidfd >= 0) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0u);
}

}  // namespace busbar::launcher
