#include "launcher/pidfd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace busbar::launcher {

namespace {
constexpr int kStateField = 2;  // of /proc/PID/stat, behind the name in parentheses
constexpr int kStartTimeField = 22;
}  // namespace

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

uint64_t process_start_time(pid_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* p = std::strrchr(text, ')');
  if (!p || p[1] != ' ' || p[2] == 'Z') return 0;
  for (int field = kStateField; p && field < kStartTimeField; ++field) p = std::strchr(p + 1, ' ');
  return p ? std::strtoull(p + 1, nullptr, 10) : 0;
}

}  // namespace busbar::launcher
