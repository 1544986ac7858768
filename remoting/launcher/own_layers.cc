#include "launcher/own_layers.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/messages.h"

namespace busbar::launcher {

uint32_t own_layers() {
  uint32_t kill = SECCOMP_RET_KILL_PROCESS;
  bool filters = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0;
  return control::kNoNewPrivs | control::kResourceLimits | (filters ? control::kSeccomp : 0u);
}

}  // namespace busbar::launcher
