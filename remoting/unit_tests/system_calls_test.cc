// System calls that NVIDIA's driver makes in a session, as seen with driver 580.
#include "server/system_calls.h"

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "control/system_call_filter.h"

namespace busbar::server {

namespace {
bool listens_at_abstract_socket() {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{AF_UNIX, {}};
  std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "busbar-test-%d", getpid());
  return bind(fd, (sockaddr*)&address, sizeof address) == 0 && listen(fd, 1) == 0;
}

bool asks_for_priorities() {
  return sched_get_priority_max(SCHED_RR) > sched_get_priority_min(SCHED_RR);
}

bool cannot_make_links() {
  return symlink("../nvidiactl", "/tmp/busbar-test-link") == -1 && errno == EACCES;
}

// Returns the wait status of a child that does this behind the filter.
int status_of(DriverKind kind, bool (*action)()) {
  pid_t pid = fork();
  if (pid == 0) {
    auto filter = session_filter(kind, SECCOMP_RET_KILL_PROCESS);
    bool set =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && control::install_filter(filter, 0) >= 0;
    _exit(set && action() ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}
}  // namespace

TEST(SystemCalls, DriverOfNvidiaMakesItsCalls) {
  for (auto* action : {listens_at_abstract_socket, asks_for_priorities, cannot_make_links})
    EXPECT_EQ(status_of(DriverKind::nvidia, action), 0);
}

TEST(SystemCalls, SoftwareGpuListensNowhere) {
  EXPECT_TRUE(WIFSIGNALED(status_of(DriverKind::software_gpu, listens_at_abstract_socket)));
}

}  // namespace busbar::server
