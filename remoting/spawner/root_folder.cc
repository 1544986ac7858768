#include "spawner/root_folder.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/failpoints.h"

namespace busbar::spawner {

namespace {
// Any folder but the root. Cages show files of it, so each machine has it.
constexpr char kOtherFolder[] = "/dev";

// Kernels before 5.8 do not tell; there a plain chroot has no cages.
bool is_mount_point(const char* path) {
  struct statx s;
  if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &s)) return true;
  return !(s.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) ||
         (s.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

// Compares the mounts, too: a folder may be mounted into its own child.
bool is_top_folder() {
  struct statx x, y;
  unsigned wanted = STATX_BASIC_STATS | STATX_MNT_ID;
  return statx(AT_FDCWD, ".", 0, wanted, &x) == 0 && statx(AT_FDCWD, "..", 0, wanted, &y) == 0 &&
         x.stx_mnt_id == y.stx_mnt_id && x.stx_ino == y.stx_ino &&
         x.stx_dev_major == y.stx_dev_major && x.stx_dev_minor == y.stx_dev_minor;
}

// Enters the root of the mount namespace. `root` is this process's root folder. A working directory
// outside of the root folder has the real parents (chroot(2)).
bool enter_namespace_root(int root) {
  if (chroot(kOtherFolder) || fchdir(root)) return false;
  while (!is_top_folder())
    if (chdir("..")) return false;
  return chroot(".") == 0;
}

// Mounts the folder onto itself and makes it the root. The namespace keeps nothing else. No path is
// used: the owner of a parent folder could rename it meanwhile.
bool enter_as_mount(int root) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) return false;
  int tree = (int)syscall(SYS_open_tree, root, "",
                          AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (tree < 0) return false;
  // Failpoint: a test shows that a spawner that cannot change its root stays where it was.
  bool refused = control::failpoint("NO_PIVOT");
  bool entered = syscall(SYS_move_mount, tree, "", root, "",
                         MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0 &&
                 fchdir(tree) == 0 && !refused && syscall(SYS_pivot_root, ".", ".") == 0 &&
                 umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
  close(tree);
  return entered;
}

// Returns to the folder that was the root before. The process must not go on in another one.
void return_to(int root) {
  if (fchdir(root) || chroot(".")) _exit(1);
}
}  // namespace

bool own_root_folder() {
  if (is_mount_point("/")) return true;
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return false;
  bool entered = enter_namespace_root(root) && enter_as_mount(root);
  if (!entered) return_to(root);
  close(root);
  return entered;
}

}  // namespace busbar::spawner
