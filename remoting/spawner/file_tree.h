// The root folder of a cage: an empty file system that shows chosen paths of the machine.
//
// Thread safety: for a process with one thread and a mount namespace of its own.
#pragma once
#include <string>
#include <vector>

namespace busbar::spawner {

// Files of the threads of the process: their names can be written.
constexpr char kThreads[] = "/proc/self/task";

class FileTree {
 public:
  // Mounts an empty file system at `folder`, which must exist. Hides all mounts that follow from
  // other namespaces.
  explicit FileTree(std::string folder);

  // Shows a file or folder under its own path. A path that does not exist is skipped. A symbolic
  // link is copied. Devices work and programs can be executed; nothing has set-user-id rights.
  void show(const std::string& path);  // read-only
  void show_writable(const std::string& path);
  void add_folder(const std::string& path);
  void add_memory(const std::string& path);  // an empty file system without programs
  void add_processes();  // /proc of this PID namespace, if the system permits it

  // Makes the tree the root folder of this process and detaches the old one. False if that or an
  // earlier step has failed.
  bool enter();

 private:
  std::string inside(const std::string& path) const { return folder_ + path; }
  void bind(const std::string& path, bool writable);
  const std::string folder_;
  bool ok_ = true;
};

// A folder that a running cage gets.
struct LateMount {
  int source;  // a descriptor, because others may change the path
  std::string target;
  bool writable, executable;
};

// Returns a descriptor of a mount that is not attached, or -1. If `user_namespace` is not -1, the
// folder belongs to the cage's user there.
int copy_mount(const LateMount& mount, int user_namespace);

// Shows folders of this mount namespace below `root` in another one, which must have the targets.
// The process stays in the other one, so that only a child should call it. False on failure.
bool show_in_namespace(int mount_namespace, int root, int user_namespace,
                       const std::vector<LateMount>& mounts);

}  // namespace busbar::spawner
