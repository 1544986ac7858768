#include "spawner/cage.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "control/failpoints.h"
#include "control/log.h"
#include "control/messages.h"
#include "control/spawn_messages.h"
#include "spawner/cage_users.h"
#include "spawner/file_tree.h"
#include "spawner/landlock.h"
#include "spawner/oom_score.h"
#include "spawner/privileges.h"

namespace busbar::spawner {

namespace {
constexpr unsigned long kNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP;
constexpr uint32_t kCageBits = control::kFileSystem | control::kProcesses | control::kNetwork;
constexpr int kFirstInherited = 3, kStartFailed = 127;
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                    "/dev/urandom"};

bool build_root(const CageSettings& settings) {
  mode_t before = umask(0022);  // the cage's user must see its folders
  FileTree tree(settings.mount_point);
  for (auto* path : {"/tmp", "/dev/shm"}) tree.add_memory(path);  // shown paths may lie in them
  for (auto& path : settings.shown) tree.show(path);
  for (auto& path : settings.writable) tree.show_writable(path);
  for (auto* path : kDevices) tree.show_writable(path);
  for (auto* path : {control::kCageSockets, control::kCageImages, control::kCageKernels})
    tree.add_folder(path);
  tree.add_processes();
  umask(before);
  return tree.enter();
}

// Returns true if Landlock restricts this process to what build_root() shows.
bool restrict_files(const CageSettings& settings) {
  Landlock files;
  for (auto* path : {"/tmp", "/dev/shm"}) files.permit(path, FileAccess::folder);
  files.permit(control::kImages, FileAccess::files);
  for (auto& path : settings.shown) files.permit(path, FileAccess::read);
  for (auto& path : settings.writable) files.permit(path, FileAccess::device);
  for (auto* path : kDevices) files.permit(path, FileAccess::device);
  files.permit("/proc", FileAccess::read);
  files.permit(kThreads, FileAccess::write);
  files.permit(control::kSockets, FileAccess::read);
  files.permit(control::kKernels, settings.writes_kernels ? FileAccess::folder : FileAccess::read);
  return files.enforce();
}

bool give_up_rights(const CageSettings& settings) {
  return (settings.user_namespace < 0 || become_user(settings.user_namespace)) &&
         drop_capabilities();
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (auto& t : texts) list.push_back(const_cast<char*>(t.c_str()));
  list.push_back(nullptr);
  return list;
}

// Kernels before 5.9 have no close_range.
void close_from(int first) {
  if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  for (int fd = first; fd < (int)limit.rlim_cur; ++fd) close(fd);
}

// Makes `inherited` the descriptors from 3 on and `log` both output streams. Closes all others.
void arrange_descriptors(std::vector<int> inherited, int log) {
  int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(none, STDIN_FILENO);
  // Failpoint: a test shows that its attacks find descriptors that a session inherits.
  bool keeps = control::failpoint("KEEP_DESCRIPTORS");
  if (log >= 0 && !keeps)
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(log, stream);
  int above = kFirstInherited + (int)inherited.size();
  for (int& fd : inherited) fd = fcntl(fd, F_DUPFD_CLOEXEC, above);
  for (size_t i = 0; i < inherited.size(); ++i) dup2(inherited[i], kFirstInherited + (int)i);
  if (!keeps) close_from(above);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s : {SIGCHLD, SIGTERM, SIGINT}) signal(s, SIG_DFL);
}

// Sends the layer, the mount namespace and the root folder of this process.
bool send_report(int fd, uint32_t landlock, int mount_namespace) {
  int root = mount_namespace < 0 ? -1 : open("/", O_PATH | O_CLOEXEC);
  return control::send_message(fd, control::Kind::ok, &landlock, sizeof landlock,
                               mount_namespace) &&
         control::send_message(fd, control::Kind::ok, nullptr, 0, root);
}

// Runs in the child. `report` gets the mount namespace once the cage is complete.
[[noreturn]] void become_program(const CageSettings& settings,
                                 const std::vector<std::string>& command,
                                 const std::vector<std::string>& environment,
                                 const std::vector<int>& inherited, bool can_cage, int report) {
  setsid();
  reset_signals();
  if (!take_session_oom_score())  // before /proc is read-only
    control::log_line("spawner", "score not set", strerror(errno),
                      "when memory runs out, the kernel may end the node before this session");
  for (int group : settings.groups)
    if (write(group, "0", 1) != 1) _exit(kStartFailed);
  if (can_cage) {
    int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0 || !build_root(settings) || !give_up_rights(settings)) {
      control::log_line("spawner", "cage failed", strerror(errno), "the session does not start");
      _exit(kStartFailed);
    }
    if (!send_report(report, restrict_files(settings) ? (uint32_t)control::kLandlock : 0, mounts))
      _exit(kStartFailed);
  } else if (!send_report(report, 0, -1)) {
    _exit(kStartFailed);
  }
  arrange_descriptors(inherited, settings.log);
  auto arguments = pointers(command), variables = pointers(environment);
  execve(arguments[0], arguments.data(), variables.data());
  control::log_line("spawner", "cannot run", command[0], strerror(errno));
  _exit(kStartFailed);
}
}  // namespace

CagedProcess start_caged(const CageSettings& settings, const std::vector<std::string>& command,
                         const std::vector<std::string>& environment,
                         const std::vector<int>& inherited, bool can_cage) {
  CagedProcess process;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return process;
  auto pid = (pid_t)syscall(SYS_clone, SIGCHLD | (can_cage ? kNamespaces : 0), 0, 0, 0, 0);
  if (pid == 0) {
    close(pair[0]);
    become_program(settings, command, environment, inherited, can_cage, pair[1]);
  }
  close(pair[1]);
  control::Header h;
  uint32_t landlock = 0;
  if (pid > 0 &&
      control::receive_message(pair[0], h, &landlock, sizeof landlock, &process.mount_namespace) &&
      control::receive_message(pair[0], h, nullptr, 0, &process.root)) {
    process.pid = pid;
    process.isolation = landlock | (can_cage ? kCageBits : 0) |
                        (settings.groups.empty() ? 0 : (uint32_t)control::kCgroup) |
                        (settings.user_namespace < 0 ? 0 : (uint32_t)control::kUser);
  }
  close(pair[0]);
  return process;
}

}  // namespace busbar::spawner
