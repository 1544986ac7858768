#include "server/sandbox.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "control/failpoints.h"
#include "control/system_call_filter.h"

namespace busbar::server {

namespace {
constexpr rlim_t kMaxFiles = 4096;

bool set_limits() {
  rlimit none{0, 0};
  bool ok = true;
  for (auto resource : {RLIMIT_CORE, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK})
    ok = setrlimit(resource, &none) == 0 && ok;
  return ok;
}

bool restrict_calls(DriverKind driver, int& violations) {
  // Another filter of this process may have a listener already, and old kernels have none.
  violations = (int)control::install_filter(
      session_filter(driver, SECCOMP_RET_USER_NOTIF),
      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
  return violations >= 0 ||
         control::install_filter(session_filter(driver, SECCOMP_RET_KILL_PROCESS), 0) == 0;
}
}  // namespace

bool limit_descriptors() {
  rlimit files{kMaxFiles, kMaxFiles};
  return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

Isolation enter_sandbox(DriverKind driver) {
  Isolation i;
  // Failpoint: a test shows that its attacks work where nothing stops them.
  if (control::failpoint("NO_SANDBOX")) return i;
  // Without it another process of the same user reads and writes the memory of this one.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  i.no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  i.resource_limits = set_limits();
  i.seccomp = restrict_calls(driver, i.violations);
  return i;
}

}  // namespace busbar::server
