#include "spawner/cage_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "spawner/file_tree.h"

namespace busbar::spawner {

namespace {
bool write_file(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text.data(), text.size()) == (ssize_t)text.size();
  close(fd);
  return ok;
}

// Returns the namespace of a process with one user, or -1.
int map_user(pid_t pid, uid_t uid) {
  std::string folder = "/proc/" + std::to_string(pid), cage = " " + std::to_string(uid) + " 1";
  if (!write_file(folder + "/uid_map", std::to_string(geteuid()) + cage) ||
      !write_file(folder + "/gid_map", std::to_string(getegid()) + cage))
    return -1;
  return open((folder + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
}

int make_namespace(uid_t uid) {
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC)) return -1;
  auto pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, 0, 0, 0, 0);
  if (pid == 0) {
    char end;
    close(pipe[1]);
    (void)!read(pipe[0], &end, 1);  // until the parent has finished
    _exit(0);
  }
  int name_space = pid < 0 ? -1 : map_user(pid, uid);
  close(pipe[0]);
  close(pipe[1]);
  if (pid > 0) waitpid(pid, nullptr, 0);
  return name_space;
}

// Returns the real uid of a process, or that of root.
uid_t user_of(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  unsigned uid = 0;
  for (std::string line; std::getline(status, line);)
    if (std::sscanf(line.c_str(), "Uid: %u", &uid) == 1) break;
  return uid;
}
}  // namespace

CageUsers::CageUsers(const std::string& range, const std::vector<std::string>& folders) {
  if (std::sscanf(range.c_str(), "%u-%u", &first_, &last_) != 2 || first_ == 0 || last_ < first_)
    return;
  // Another spawner on this machine may look for a user at the same time.
  next_ = first_ + (uid_t)getpid() % (last_ - first_ + 1);
  CageUser user = take();
  available_ =
      user.name_space >= 0 && std::all_of(folders.begin(), folders.end(), [&](auto& folder) {
        int source = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        int tree = copy_mount({source, "", true, false}, user.name_space);
        for (int fd : {source, tree})
          if (fd >= 0) close(fd);
        return tree >= 0;
      });
  if (user.name_space >= 0) close(user.name_space);
}

// Also those of sessions that an earlier spawner started.
std::set<uid_t> CageUsers::users_of_processes() const {
  std::set<uid_t> users;
  DIR* dir = opendir("/proc");
  while (dirent* e = dir ? readdir(dir) : nullptr)
    if (std::isdigit(e->d_name[0])) users.insert(user_of(e->d_name));
  if (dir) closedir(dir);
  return users;
}

CageUser CageUsers::take() {
  std::set<uid_t> taken = users_of_processes();
  for (uid_t tried = first_; tried <= last_; ++tried) {
    uid_t uid = next_;
    next_ = uid == last_ ? first_ : uid + 1;
    if (!taken.count(uid)) return {uid, make_namespace(uid)};
  }
  return {};
}

bool become_user(int user_namespace) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  return setgroups(0, nullptr) == 0 && setns(user_namespace, CLONE_NEWUSER) == 0 &&
         setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0;
}

}  // namespace busbar::spawner
