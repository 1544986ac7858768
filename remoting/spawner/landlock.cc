#include "spawner/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "control/failpoints.h"

namespace busbar::spawner {

namespace {
// The headers of the build machine may be older than the kernel of the node.
constexpr uint64_t kRefer = 1ull << 13, kTruncate = 1ull << 14, kDeviceIoctl = 1ull << 15;
constexpr uint64_t kTcp = 3;    // bind and connect
constexpr uint64_t kScope = 3;  // abstract sockets and signals
struct RulesetAttributes {
  uint64_t files, network, scope;
};

// Numbers of the kernel's versions of Landlock.
constexpr long kWithRefer = 2, kWithTruncate = 3, kWithNetwork = 4, kWithIoctl = 5, kWithScope = 6;
constexpr uint64_t kFirstRights = kRefer - 1;

constexpr uint64_t kFileRights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                 LANDLOCK_ACCESS_FS_READ_FILE | kTruncate | kDeviceIoctl;
constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
                            LANDLOCK_ACCESS_FS_READ_DIR | kTruncate;
constexpr uint64_t kChange = kWrite | LANDLOCK_ACCESS_FS_REMOVE_FILE;

uint64_t rights(FileAccess access) {
  switch (access) {
    case FileAccess::read: return kRead;
    case FileAccess::write: return kWrite;
    case FileAccess::device: return kChange | kDeviceIoctl;
    case FileAccess::files: return kChange | LANDLOCK_ACCESS_FS_MAKE_REG;
    case FileAccess::folder:
      return kChange | kRefer | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
             LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM;
  }
  return 0;
}

long version() {
  // Failpoint: a test shows that a node without Landlock says so.
  if (control::failpoint("NO_LANDLOCK")) return 0;
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

// Returns the length that a kernel of this version expects.
size_t attribute_bytes(long version) {
  return version >= kWithScope     ? 3 * sizeof(uint64_t)
         : version >= kWithNetwork ? 2 * sizeof(uint64_t)
                                   : sizeof(uint64_t);
}
}  // namespace

Landlock::Landlock() {
  long kernel = version();
  if (kernel < 1) return;
  handled_ = kFirstRights | (kernel >= kWithRefer ? kRefer : 0) |
             (kernel >= kWithTruncate ? kTruncate : 0) | (kernel >= kWithIoctl ? kDeviceIoctl : 0);
  RulesetAttributes attributes{handled_, kTcp, kScope};
  rules_ = (int)syscall(SYS_landlock_create_ruleset, &attributes, attribute_bytes(kernel), 0);
  ok_ = rules_ >= 0;
}

Landlock::~Landlock() {
  if (rules_ >= 0) close(rules_);
}

void Landlock::permit(const std::string& path, FileAccess access) {
  int fd = ok_ ? open(path.c_str(), O_PATH | O_CLOEXEC) : -1;
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) return;
  uint64_t allowed = rights(access) & handled_ & (S_ISDIR(st.st_mode) ? ~0ull : kFileRights);
  landlock_path_beneath_attr rule{allowed, fd};
  ok_ = syscall(SYS_landlock_add_rule, rules_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  close(fd);
}

bool Landlock::enforce() const {
  return ok_ && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_landlock_restrict_self, rules_, 0) == 0;
}

}  // namespace busbar::spawner
