#include "spawner/file_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace busbar::spawner {

namespace {
constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV;
constexpr char kMemoryOptions[] = "size=64m,mode=0755";

void make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0755);
  mkdir(path.c_str(), 0755);
}

void make_file(const std::string& path) {
  make_folders(path.substr(0, path.rfind('/')));
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) close(fd);
}

bool attach_mount(int tree, const std::string& target) {
  return syscall(SYS_move_mount, tree, "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

// Without mount_setattr (Linux 5.12): the flags that a mount has may be locked, so they are kept.
bool make_read_only(const std::string& path) {
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  if (syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), AT_RECURSIVE, &attr, sizeof attr) == 0)
    return true;
  struct statvfs st;
  if (statvfs(path.c_str(), &st)) return false;
  unsigned long kept =
      st.f_flag & (ST_NODEV | ST_NOEXEC | ST_NOATIME | ST_NODIRATIME | ST_RELATIME);
  return mount(nullptr, path.c_str(), nullptr, kept | MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID,
               nullptr) == 0;
}
}  // namespace

FileTree::FileTree(std::string folder) : folder_(std::move(folder)) {
  ok_ = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount("cage", folder_.c_str(), "tmpfs", kPlain, kMemoryOptions) == 0;
}

void FileTree::bind(const std::string& path, bool writable) {
  struct stat st;
  if (lstat(path.c_str(), &st)) return;
  std::string target = inside(path);
  if (S_ISLNK(st.st_mode)) {
    char to[PATH_MAX] = {};
    make_folders(target.substr(0, target.rfind('/')));
    if (readlink(path.c_str(), to, sizeof to - 1) > 0) (void)!symlink(to, target.c_str());
    return;
  }
  if (S_ISDIR(st.st_mode))
    make_folders(target);
  else
    make_file(target);
  bool bound = mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
  ok_ = bound && (writable || make_read_only(target)) && ok_;
}

void FileTree::show(const std::string& path) {
  bind(path, false);
}

void FileTree::show_writable(const std::string& path) {
  bind(path, true);
}

void FileTree::add_folder(const std::string& path) {
  make_folders(inside(path));
}

void FileTree::add_memory(const std::string& path) {
  add_folder(path);
  ok_ =
      mount("cage", inside(path).c_str(), "tmpfs", kPlain | MS_NOEXEC, "size=1g,mode=1777") == 0 &&
      ok_;
}

// Read-only: a process of root writes the kernel's settings in /proc, even without capabilities.
// Except the files of the process's own threads, where NVIDIA's driver writes their names; without
// that, cuInit() fails with CUDA_ERROR_OPERATING_SYSTEM.
void FileTree::add_processes() {
  add_folder("/proc");
  std::string processes = inside("/proc"), threads = inside(kThreads);
  if (mount("proc", processes.c_str(), "proc", kPlain | MS_NOEXEC, nullptr)) return;
  bool bound = mount(threads.c_str(), threads.c_str(), nullptr, MS_BIND, nullptr) == 0;
  unsigned long flags = kPlain | MS_NOEXEC | MS_REMOUNT | MS_BIND | MS_RDONLY;
  ok_ = bound && mount(nullptr, processes.c_str(), nullptr, flags, nullptr) == 0 && ok_;
}

bool FileTree::enter() {
  return ok_ && chdir(folder_.c_str()) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
         umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 &&
         mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kPlain, nullptr) == 0;
}

int copy_mount(const LateMount& m, int user_namespace) {
  int tree = (int)syscall(SYS_open_tree, m.source, "",
                          AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (m.writable ? 0 : MOUNT_ATTR_RDONLY) |
                  (m.executable ? 0 : MOUNT_ATTR_NOEXEC);
  if (user_namespace >= 0) {
    attr.attr_set |= MOUNT_ATTR_IDMAP;
    attr.userns_fd = (uint64_t)user_namespace;
  }
  if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0)
    return tree;
  close(tree);
  return -1;
}

bool show_in_namespace(int mount_namespace, int root, int user_namespace,
                       const std::vector<LateMount>& mounts) {
  std::vector<int> trees;
  for (auto& m : mounts) trees.push_back(copy_mount(m, user_namespace));
  if (setns(mount_namespace, CLONE_NEWNS) || fchdir(root)) return false;
  for (size_t i = 0; i < mounts.size(); ++i)
    if (trees[i] < 0 || !attach_mount(trees[i], "." + mounts[i].target)) return false;
  return true;
}

}  // namespace busbar::spawner
