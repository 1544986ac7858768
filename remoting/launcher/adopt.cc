#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "control/hex.h"
#include "control/log.h"
#include "control/session_ends.h"
#include "launcher/pidfd.h"
#include "launcher/sessions.h"

namespace busbar::launcher {

namespace {
constexpr char kSuffix[] = ".record";

bool read_record(const std::string& path, Session& s) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool ok = read(fd, &s, sizeof s) == (ssize_t)sizeof s;
  close(fd);
  return ok;
}
}  // namespace

void Sessions::adopt_record(const std::string& path, unsigned& adopted) {
  Session s;
  if (!read_record(path, s)) {
    unlink(path.c_str());
    return;
  }
  s.exit_pipe = -1;
  s.kill_at_ms = 0;
  s.ended_seconds = 0;
  s.violations = -1;
  s.pidfd = open_pidfd((pid_t)s.record.pid);
  // The descriptor is opened first: a later process with this pid has another start time. A process
  // that the kernel is still tearing down has its pid and start time.
  bool same = !has_ended(s.pidfd) && process_start_time((pid_t)s.record.pid) == s.start_time;
  std::string id = control::hex(s.record.id, 16);
  MutexLock lock(mutex_);
  Session& kept = sessions_[id] = s;
  if (!same) {
    close_session(kept, *kept.record.reason ? kept.record.reason : control::kEndedUnseen);
    return;
  }
  kept.record.state = (uint32_t)control::SessionState::running;
  if (!is_exiting((pid_t)s.record.pid)) *kept.record.reason = 0;  // of an end that did not come
  control::log_line("launcher", "session adopted", id, "pid " + std::to_string(s.record.pid));
  ++adopted;
}

unsigned Sessions::adopt() {
  std::string folder = settings_.runtime + "/sessions";
  DIR* dir = opendir(folder.c_str());
  if (!dir) return 0;
  unsigned adopted = 0;
  while (dirent* e = readdir(dir)) {
    std::string name = e->d_name;
    if (name.ends_with(kSuffix)) adopt_record(folder + "/" + name, adopted);
  }
  closedir(dir);
  return adopted;
}

}  // namespace busbar::launcher
