#include "spawner/sessions.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

#include "checked_size.h"
#include "control/hex.h"
#include "control/log.h"
#include "control/messages.h"
#include "softgpu/device/use_page.h"
#include "spawner/driver_path.h"
#include "spawner/file_tree.h"
#include "spawner/folders.h"
#include "spawner/oom_score.h"
#include "spawner/session_environment.h"

namespace busbar::spawner {

namespace {
constexpr uint64_t kSpareFraction = 16;
constexpr char kUsers[] = "2000000000-2000004095";       // outside of the ranges of distributions
constexpr char kPlainLog[] = "BUSBAR_LOG_FORMAT=plain";  // control::kLogFormat
// Descriptors of the session server, behind its start socket.
constexpr char kCompilerFd[] = "4", kUseFd[] = "5";
const std::vector<std::string> kLibraries = {
    "/lib",       "/lib64",         "/usr/lib",         "/usr/lib64",
    "/usr/lib32", "/usr/local/lib", "/etc/ld.so.cache", "/etc/machine-id"};
const std::vector<std::string> kCompilerPaths = {"/bin", "/usr", "/etc/alternatives"};
// NVIDIA's driver opens these. nvidia-modprobe has run before: no session creates device files.
const std::vector<std::string> kNvidiaPaths = {"/sys/devices/system/cpu",
                                               "/sys/devices/system/node", "/etc/nvidia"};
const std::vector<std::string> kNvidiaDevices = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                                 "/dev/nvidia-caps"};

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

uint64_t machine_memory() {
  return (CheckedSize((uint64_t)sysconf(_SC_PHYS_PAGES)) * (uint64_t)sysconf(_SC_PAGE_SIZE))
      .value();
}

// Of the host memory of one session with its compiler: half of the machine's by default.
uint64_t memory_limit() {
  return std::strtoull(
      variable("BUSBAR_CAGE_MEMORY_BYTES", std::to_string(machine_memory() / 2)).c_str(), nullptr,
      10);
}

// Of the host memory of all sessions together. The rest is for the node and the system.
uint64_t common_memory_limit() {
  return machine_memory() - machine_memory() / kSpareFraction;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void close_all(std::initializer_list<int> descriptors) {
  for (int fd : descriptors)
    if (fd >= 0) ::close(fd);
}

std::vector<std::string> make_folders(std::vector<std::string> folders) {
  for (auto& folder : folders) mkdir(folder.c_str(), 0700);
  return folders;
}

void show_gpus(const std::vector<GpuUuid>& gpus, CageSettings& cage) {
  append(cage.shown, kNvidiaPaths);
  append(cage.writable, kNvidiaDevices);
  GpuFiles files = files_of_gpus(gpus);
  append(cage.shown, files.attributes);
  append(cage.writable, files.devices);
  for (auto& uuid : files.unknown)
    control::log_line("spawner", "GPU not shown to a session", gpu_name(uuid),
                      "no file in /proc/driver/nvidia/gpus has its UUID and Device Minor: turn MIG "
                      "off, or update NVIDIA's driver");
}

// Runs in a child, because it enters the cage for good.
bool show_folders(const CagedProcess& process, const CageUser& user,
                  const std::vector<LateMount>& mounts) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(show_in_namespace(process.mount_namespace, process.root, user.name_space, mounts) ? 0
                                                                                            : 1);
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
}  // namespace

Sessions::Sessions(const Settings& settings, bool can_cage)
    : settings_(settings),
      can_cage_(can_cage),
      groups_(memory_limit(), common_memory_limit()),
      compiler_program_(folder_of(settings.driver) + "/softgpu-compiler"),
      kernels_(variable("BUSBAR_SOFTGPU_CACHE", settings.runtime + "/kernels")),
      devices_(
          variable("BUSBAR_SOFTGPU_DIR", "/dev/shm/busbar-softgpu-" + std::to_string(getuid()))),
      users_(can_cage ? variable("BUSBAR_CAGE_USERS", kUsers) : "",
             make_folders({settings.runtime + "/cage", kernels_})) {
  if (access(compiler_program_.c_str(), X_OK)) compiler_program_.clear();
}

CageSettings Sessions::cage(const Session& session, int log, const std::vector<int>& groups) const {
  CageSettings cage;
  cage.mount_point = settings_.runtime + "/cage";
  cage.shown = kLibraries;
  cage.groups = groups;
  cage.user_namespace = session.user.name_space;
  cage.log = log;
  return cage;
}

CagedProcess Sessions::start_compiler(int socket, CageSettings cage) const {
  append(cage.shown, kCompilerPaths);
  cage.writes_kernels = true;
  cage.shown.push_back(folder_of(compiler_program_));
  return start_caged(
      cage, {compiler_program_, "3"},
      session_environment({std::string("BUSBAR_SOFTGPU_CACHE=") + control::kCageKernels, kPlainLog,
                           "LD_LIBRARY_PATH="}),
      {socket}, true);
}

CagedProcess Sessions::start_server(int start_socket, int compiler_socket, int use_fd,
                                    CageSettings cage, const std::vector<GpuUuid>& gpus) const {
  cage.shown.push_back(folder_of(settings_.session_program));
  std::vector<int> inherited = {start_socket};
  auto environment = session_environment({"BUSBAR_SOFTGPU_DIR=" + devices_, kPlainLog});
  if (compiler_socket >= 0) {
    inherited.push_back(compiler_socket);
    environment.push_back(std::string("BUSBAR_SOFTGPU_COMPILER_FD=") + kCompilerFd);
    cage.shown.push_back(devices_);
    inherited.push_back(use_fd);
    environment.push_back(std::string(softgpu::kUseVariable) + "=" + kUseFd);
  } else {
    show_gpus(gpus, cage);
  }
  append(cage.shown, folders_of(settings_.driver));
  return start_caged(cage, {settings_.session_program, "--driver", settings_.driver}, environment,
                     inherited, can_cage_);
}

control::SpawnReply Sessions::start(int start_socket, int exit_pipe,
                                    const std::vector<GpuUuid>& gpus) {
  Session session;
  session.exit_pipe = exit_pipe;
  if (!compiler_program_.empty() && !make_public_folder(devices_)) {
    control::log_line("spawner", "session not started",
                      "the folder of the software GPUs is a link, or others can change it",
                      "remove " + devices_ + " or set BUSBAR_SOFTGPU_DIR to another folder");
    end(session);
    return {};
  }
  if (users_.available()) session.user = users_.take();
  if (users_.available() && session.user.name_space < 0) {
    control::log_line("spawner", "session not started", "all users of cages are taken",
                      "extend BUSBAR_CAGE_USERS");
    end(session);
    return {};
  }
  std::vector<int> groups = groups_.create(std::to_string(++started_));
  int pair[2] = {-1, -1}, log[2] = {-1, -1};
  // Not the file itself: a session could read or empty the log.
  (void)!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, log);
  if (can_cage_ && !compiler_program_.empty() &&
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
    session.compiler = start_compiler(pair[1], cage(session, log[1], groups));
  auto use = pair[0] >= 0 ? softgpu::create_use_file(devices_) : softgpu::UseFile{};
  session.use_file = use.path;
  session.server = start_server(start_socket, pair[0], use.fd, cage(session, log[1], groups), gpus);
  for (int group : groups) ::close(group);
  close_all({pair[0], pair[1], log[1], use.fd});
  if (session.server.pid < 0) {
    close_all({log[0]});
    end(session);
    return {};
  }
  if (log[0] >= 0) output_.add(log[0], session.server.pid);
  sessions_[session.server.pid] = session;
  return {(uint32_t)session.server.pid, session.server.isolation};
}

control::SpawnReply Sessions::open(const control::SpawnRequest& request) {
  auto it = sessions_.find((pid_t)request.pid);
  if (it == sessions_.end()) return {};
  const Session& s = it->second;
  control::SpawnReply reply{request.pid, s.server.isolation};
  std::string tenant = control::hex(request.tenant, 16);
  int sockets = open_below(settings_.runtime, "sessions/" + control::hex(request.allocation, 16),
                           settings_.runtime);
  int images = open_below(settings_.image_base(), "images/" + tenant, settings_.runtime);
  int kernels = s.compiler.pid > 0 ? open_below(kernels_, tenant, settings_.runtime) : -1;
  std::vector<LateMount> mounts = {{sockets, control::kCageSockets, false, false},
                                   {images, control::kCageImages, true, false}};
  std::vector<LateMount> of_compiler;
  if (s.compiler.pid > 0) {
    mounts.push_back({kernels, control::kCageKernels, false, true});
    of_compiler.push_back({kernels, control::kCageKernels, true, true});
  }
  bool shown = s.server.mount_namespace < 0 ||
               (show_folders(s.server, s.user, mounts) &&
                (of_compiler.empty() || show_folders(s.compiler, s.user, of_compiler)));
  close_all({sockets, images, kernels});
  if (shown) return reply;
  control::log_line("spawner", "session not opened", "the folders of its tenant cannot be shown",
                    "make them folders of the launcher's user in " + settings_.runtime + ", " +
                        settings_.images() + " and " + kernels_);
  return {};
}

std::string Sessions::common_limits() const {
  uint64_t bytes = groups_.common_memory_limit();
  return (bytes ? std::to_string(bytes) + " bytes of host memory" : "NO limit of host memory") +
         (groups_.available() ? ", one weight of processor time"
                              : ", NO weight of processor time") +
         ", oom_score_adj " + std::to_string(kSessionOomScore);
}

// Ends the compiler and releases what the session had. Its server has ended or was not started.
void Sessions::end(Session& s) {
  // The end of a large process takes long: it is collected later.
  if (s.compiler.pid > 0) kill(s.compiler.pid, SIGKILL);
  unlink(s.use_file.c_str());
  close_all({s.exit_pipe, s.server.mount_namespace, s.server.root, s.compiler.mount_namespace,
             s.compiler.root, s.user.name_space});
}

void Sessions::has_ended(pid_t pid, int status) {
  if (auto it = sessions_.find(pid); it != sessions_.end()) {
    (void)!write(it->second.exit_pipe, &status, sizeof status);
    end(it->second);
    sessions_.erase(it);
    return;
  }
  // A later process may get the pid of this compiler.
  for (auto& [server, s] : sessions_)
    if (s.compiler.pid == pid) s.compiler.pid = -1;
}

}  // namespace busbar::spawner
