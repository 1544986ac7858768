#include "spawner/control_groups.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "control/failpoints.h"

namespace busbar::spawner {

namespace {
constexpr char kPrefix[] = "busbar-cage-";     // then the pid of the spawner, and a time
constexpr char kAllCages[] = "/busbar-cages";  // the group in which all cages have theirs
constexpr char kThreads[] = "2048";
// Processor time of all cages together, beside 100 (version 2) and 1024 (version 1) of the
// launcher: a third of each core is reserved for it, however many sessions are busy.
constexpr char kWeight[] = "200", kShares[] = "2048";

constexpr char kControllers[] = "+memory +pids +cpu";

bool write_file(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text.data(), text.size()) == (ssize_t)text.size();
  close(fd);
  return ok;
}

const char* memory_file(bool version_2) {
  return version_2 ? "/memory.max" : "/memory.limit_in_bytes";
}

bool has_word(std::string list, const std::string& word) {
  for (char& c : list)
    if (c == ',') c = ' ';
  std::istringstream words(list);
  for (std::string w; words >> w;)
    if (w == word) return true;
  return false;
}

// Returns the group of this process in the hierarchy with a controller; "" is version 2.
std::string group_of_process(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_word(names, controller))
      return line.substr(second + 1);
  }
  return "";
}

// Returns the folder of this process's group; empty if there is none.
std::string group_folder(const std::string& controller) {
  std::string group = group_of_process(controller);
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; !group.empty() && std::getline(file, line);) {
    std::istringstream fields(line.substr(0, line.find(" - ")));
    std::istringstream system(line.substr(line.find(" - ") + 3));
    std::string skipped, root, point, type, source, options;
    fields >> skipped >> skipped >> skipped >> root >> point;
    system >> type >> source >> options;
    bool matches =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && has_word(options, controller);
    if (!matches) continue;
    // A container sees its own group as the root of the mount.
    if (root != "/" && group.rfind(root, 0) == 0) group.erase(0, root.size());
    return point + (group == "/" ? "" : group);
  }
  return "";
}

// In a container the next spawner has the same pid, and sessions of this one may still run.
std::string new_prefix() {
  using std::chrono::steady_clock;
  return kPrefix + std::to_string(getpid()) + "-" +
         std::to_string(steady_clock::now().time_since_epoch().count()) + "-";
}

bool can_create_in(const std::string& folder) {
  std::string probe = folder + "/" + new_prefix() + "probe";
  return (mkdir(probe.c_str(), 0755) == 0) && rmdir(probe.c_str()) == 0;
}
}  // namespace

ControlGroups::ControlGroups(uint64_t memory_bytes, uint64_t all_memory_bytes)
    : prefix_(new_prefix()), memory_bytes_(memory_bytes), all_memory_bytes_(all_memory_bytes) {
  // Failpoint: a test shows that a node without control groups says so.
  bool may_use = !control::failpoint("NO_CONTROL_GROUPS");
  if (!may_use || (!use_version_2() && !use_version_1())) parents_.clear();
  remove_empty();
}

// A group with limits for its children has no processes of its own, so this process moves.
bool ControlGroups::use_version_2() {
  std::string folder = group_folder("");
  std::ifstream file(folder + "/cgroup.controllers");
  std::string controllers;
  std::getline(file, controllers);
  for (auto* name : {"memory", "pids", "cpu"})
    if (!has_word(controllers, name)) return false;
  std::string own = folder + "/busbar-spawner";
  mkdir(own.c_str(), 0755);
  parents_ = {folder + kAllCages};
  return write_file(own + "/cgroup.procs", "0") &&
         write_file(folder + "/cgroup.subtree_control", kControllers) && can_create_cages();
}

bool ControlGroups::use_version_1() {
  parents_.clear();
  for (auto* controller : {"memory", "pids", "cpu"}) {
    std::string folder = group_folder(controller);
    if (folder.empty()) return false;
    parents_.push_back(folder + kAllCages);
  }
  return can_create_cages();
}

bool ControlGroups::can_create_cages() const {
  return create_parents() && std::ranges::all_of(parents_, can_create_in);
}

// Another spawner may have removed the groups, because its last cage had ended. With a limit of all
// cages together, sessions of one tenant cannot make the system end processes of the node. It
// cannot be set below what cages of an earlier spawner use.
bool ControlGroups::create_parents() const {
  bool version_2 = parents_.size() == 1;
  for (auto& parent : parents_) mkdir(parent.c_str(), 0755);
  (void)write_file(parents_[0] + memory_file(version_2), std::to_string(all_memory_bytes_));
  return version_2 ? write_file(parents_[0] + "/cgroup.subtree_control", kControllers) &&
                         write_file(parents_[0] + "/cpu.weight", kWeight)
                   : write_file(parents_[2] + "/cpu.shares", kShares);
}

void ControlGroups::remove_parents() const {
  remove_empty();
  for (auto& parent : parents_) rmdir(parent.c_str());  // fails while there are cages
}

std::vector<int> ControlGroups::create(const std::string& name) const {
  if (!available()) return {};
  const std::string bytes = std::to_string(memory_bytes_);
  std::vector<int> entries;
  bool limited = create_parents();
  for (size_t i = 0; i < parents_.size(); ++i) {
    std::string folder = parents_[i] + "/" + prefix_ + name;
    limited &= mkdir(folder.c_str(), 0755) == 0;
    bool version_2 = parents_.size() == 1;
    if (version_2 || i == 0) limited &= write_file(folder + memory_file(version_2), bytes);
    if (version_2 || i == 1) limited &= write_file(folder + "/pids.max", kThreads);
    int fd = open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    limited &= fd >= 0;
    if (fd >= 0) entries.push_back(fd);
  }
  if (limited) return entries;
  for (int fd : entries) close(fd);
  return {};
}

uint64_t ControlGroups::common_memory_limit() const {
  if (!available()) return 0;
  uint64_t bytes = 0;  // version 2 without a limit has "max", version 1 nearly 2^63
  std::ifstream(parents_[0] + memory_file(parents_.size() == 1)) >> bytes;
  return bytes >> 62 ? 0 : bytes;
}

// Groups of another spawner that runs may be about to get their first process.
static bool may_remove(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return false;
  int spawner = std::atoi(name.c_str() + sizeof kPrefix - 1);
  return spawner == getpid() || (kill(spawner, 0) && errno == ESRCH);
}

void ControlGroups::remove_empty() const {
  for (auto& parent : parents_) {
    DIR* dir = opendir(parent.c_str());
    while (dirent* e = dir ? readdir(dir) : nullptr)
      if (may_remove(e->d_name))
        rmdir((parent + "/" + e->d_name).c_str());  // fails while it has processes
    if (dir) closedir(dir);
  }
}

}  // namespace busbar::spawner
