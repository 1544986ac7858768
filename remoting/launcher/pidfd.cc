#include "launcher/pidfd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace busbar::launcher {

namespace {
// Fields of /proc/PID/stat.
constexpr int kStateField = 3, kFlagsField = 9, kStartTimeField = 22;
constexpr uint64_t kExitingFlag = 4;  // PF_EXITING of the kernel

// The fields behind the name in parentheses, of a process or a thread by its folder. All are 0 if
// there is none.
class Stat {
 public:
  explicit Stat(const std::string& folder) {
    int fd = ::open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = ::read(fd, text_, sizeof text_ - 1);
    ::close(fd);
    text_[n > 0 ? n : 0] = 0;
  }
  uint64_t number(int which) const {
    const char* p = field(which);
    return p ? std::strtoull(p, nullptr, 10) : 0;
  }

 private:
  const char* field(int which) const {
    const char* p = std::strrchr(text_, ')');
    for (int at = kStateField - 1; p && at < which; ++at) {
      p = std::strchr(p, ' ');
      if (p) ++p;
    }
    return p;
  }
  char text_[1024] = {};
};

std::string folder_of(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}
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
  return Stat(folder_of(pid)).number(kStartTimeField);
}

// A process whose first thread alone has ended goes on. While the kernel takes its memory apart,
// its other threads are still listed.
bool is_exiting(pid_t pid) {
  std::error_code error;  // the process may end meanwhile
  std::filesystem::directory_iterator thread(folder_of(pid) + "/task", error), end;
  bool any = false;
  for (; thread != end; thread.increment(error)) {
    uint64_t flags = Stat(thread->path()).number(kFlagsField);
    if (flags && !(flags & kExitingFlag)) return false;
    any |= flags != 0;
  }
  return any;
}

}  // namespace busbar::launcher
