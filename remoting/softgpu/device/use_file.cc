#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "softgpu/device/use_page.h"

namespace softgpu {

// It gets its name after its lock: others remove files without a lock. Other users can open it only
// after that, so none of them holds another lock.
UseFile create_use_file(const std::string& folder) {
  std::string unlocked = folder + "/new-XXXXXX";
  int fd = mkostemp(unlocked.data(), O_CLOEXEC);
  if (fd < 0) return {};
  std::string path = folder + "/" + kUsePrefix + unlocked.substr(unlocked.size() - 6);
  if (flock(fd, LOCK_SH | LOCK_NB) == 0 && fchmod(fd, 0644) == 0 &&
      rename(unlocked.c_str(), path.c_str()) == 0)
    return {fd, path};
  unlink(unlocked.c_str());
  close(fd);
  return {};
}

}  // namespace softgpu
