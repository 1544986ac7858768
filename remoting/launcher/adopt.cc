// After a restart: sessions are found by the records their first launcher wrote, and believed only
// if the process is the same.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "launcher/sessions.h"

namespace busbar::launcher {

static bool read_record(const std::string& path, Session& s) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool ok = read(fd, &s, sizeof s) == (ssize_t)sizeof s;
  close(fd);
  return ok;
}

unsigned Sessions::adopt() {
  std::string folder = settings_.runtime + "/sessions";
  DIR* dir = opendir(folder.c_str());
  if (!dir) return 0;
  unsigned found = 0;
  while (dirent* e = readdir(dir)) {
    std::string name = e->d_name;
    if (name.size() < 8 || name.substr(name.size() - 7) != ".record") continue;
    Session s;
    if (!read_record(folder + "/" + name, s)) {
      unlink((folder + "/" + name).c_str());
      continue;
    }
    s.mine = 0;
    control::SessionStatus status;
    bool same = server::process_start_time((pid_t)s.record.pid) == s.start_time &&
                ask(s, control::Kind::status, nullptr, 0, -1, &status);
    std::lock_guard lock(mutex_);
    Session& kept = sessions_[hex(s.record.id, 16)] = s;
    if (!same) {
      close_session(kept, "the session server ended while the launcher was away");
      continue;
    }
    kept.record.state = (uint32_t)control::SessionState::running;
    std::fprintf(stderr, "session %s adopted, pid %u\n", hex(s.record.id, 16).c_str(),
                 s.record.pid);
    ++found;
  }
  closedir(dir);
  return found;
}

}  // namespace busbar::launcher
