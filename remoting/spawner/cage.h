// A process in a cage: namespaces, a root folder and no privileges.
//
// Thread safety: for a process with one thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace busbar::spawner {

struct CageSettings {
  std::string mount_point;            // an empty folder
  std::vector<std::string> shown;     // paths of the machine, read-only
  std::vector<std::string> writable;  // paths of the machine
  std::vector<int> groups;            // of ControlGroups::create()
  int user_namespace = -1;            // of a CageUser; -1: the cage has this process's user
  bool writes_kernels = false;        // changes the compiled kernels of its tenant
  int log = -1;                       // becomes standard error; -1: that of this process
};

struct CagedProcess {
  pid_t pid = -1;            // -1: it could not be started
  int mount_namespace = -1;  // of the cage; -1: it has none
  int root = -1;             // its root folder: that of the namespace if this process has a chroot
  uint32_t isolation = 0;    // bits of control::Isolation
};

// Starts a program in a cage of its own. `inherited` become its descriptors from 3 on. Without the
// right to make namespaces it starts without a cage if `can_cage` is false.
CagedProcess start_caged(const CageSettings& settings, const std::vector<std::string>& command,
                         const std::vector<std::string>& environment,
                         const std::vector<int>& inherited, bool can_cage);

}  // namespace busbar::spawner
