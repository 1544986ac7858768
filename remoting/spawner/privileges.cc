#include "spawner/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "spawner/root_folder.h"

namespace busbar::spawner {

namespace {
bool write_file(const char* path, const std::string& text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text.data(), text.size()) == (ssize_t)text.size();
  close(fd);
  return ok;
}

bool has_namespace_rights() {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return syscall(SYS_capget, &head, data) == 0 && (data[0].effective >> CAP_SYS_ADMIN & 1);
}

// Maps this user to root of the namespace: a mapping that needs no privilege.
bool enter_user_namespace() {
  std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", "0 " + user + " 1") &&
         write_file("/proc/self/gid_map", "0 " + group + " 1");
}
}  // namespace

bool gain_namespace_rights() {
  return has_namespace_rights() ? unshare(CLONE_NEWNS) == 0 && own_root_folder()
                                : enter_user_namespace();
}

bool drop_capabilities() {
  for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; ++c) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &head, data) == 0;
}

}  // namespace busbar::spawner
