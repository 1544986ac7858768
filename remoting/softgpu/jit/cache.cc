#include "softgpu/jit/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "cache_quota.h"
#include "softgpu/jit/limits.h"

namespace softgpu::jit {

namespace {
constexpr int kSlotPollMs = 20;
constexpr uint64_t kQuotaBytes = 2ull << 30;  // of the folder

// The processor is part of the key, because of -march=native: a cache on a shared home serves
// several machines.
std::string processor() {
  std::string model;
  if (FILE* f = fopen("/proc/cpuinfo", "r")) {
    char line[4096];
    while (fgets(line, sizeof line, f))
      if (std::string(line).rfind("flags", 0) == 0 ||
          std::string(line).rfind("model name", 0) == 0) {
        model += line;
        if (model.find("flags") != std::string::npos) break;
      }
    fclose(f);
  }
  return model;
}

std::string sha256(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  EVP_Digest(text.data(), text.size(), digest, &n, EVP_sha256(), nullptr);
  std::string hex;
  char two[3];
  for (unsigned i = 0; i < n; ++i) {
    snprintf(two, sizeof two, "%02x", digest[i]);
    hex += two;
  }
  return hex;
}

// One of the C compilers that may run with a kernel cache at a time. Its file is locked, so that it
// is free again when this process ends.
class Slot {
 public:
  // Waits for a slot until the deadline. One that is free is taken also after it, so that a kernel
  // which took all of the time before is not refused because of others.
  Slot(const std::string& folder, int64_t deadline_ms) {
    for (;;) {
      for (unsigned i = 0; i < kCompilationsOfTenant && fd_ < 0; ++i)
        fd_ = lock(folder + "/compilation-" + std::to_string(i));
      if (fd_ >= 0 || !time_left_ms(deadline_ms)) return;
      poll(nullptr, 0, kSlotPollMs);
    }
  }
  ~Slot() {
    if (fd_ >= 0) close(fd_);
  }
  Slot(const Slot&) = delete;
  bool taken() const { return fd_ >= 0; }

 private:
  static int lock(const std::string& path) {
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
  }
  int fd_ = -1;
};
}  // namespace

std::string cache_directory() {
  std::string dir;
  if (const char* d = std::getenv("BUSBAR_SOFTGPU_CACHE"); d && *d)
    dir = d;
  else if (const char* x = std::getenv("XDG_CACHE_HOME"); x && *x)
    dir = std::string(x) + "/busbar-softgpu";
  else if (const char* h = std::getenv("HOME"); h && *h)
    dir = std::string(h) + "/.cache/busbar-softgpu";
  else
    dir = "/tmp/busbar-softgpu-" + std::to_string(getuid());
  for (size_t at = 1; at != std::string::npos; at = dir.find('/', at + 1))
    if (at > 1) mkdir(dir.substr(0, at).c_str(), 0700);
  mkdir(dir.c_str(), 0700);
  return dir;
}

void trim_cache_directory() {
  int folder = open(cache_directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  busbar::trim_folder(folder, kQuotaBytes);
  close(folder);
}

CompileResult library_for(const emit::KernelSource& kernel, int64_t deadline_ms, std::string& path,
                          std::string& error) {
  static const std::string dir = cache_directory(), cpu = processor();
  struct stat st;
  if (stat(dir.c_str(), &st) || st.st_uid != geteuid() || (st.st_mode & 022)) {
    error = "the kernel cache " + dir +
            " is not a private folder of this user: set BUSBAR_SOFTGPU_CACHE "
            "to a folder with mode 0700";
    return CompileResult::failed;
  }
  std::string key = cpu + c_compiler() + c_compiler_flags();
  path = dir + "/" + sha256(key + '\0' + kernel.text) + ".so";
  if (access(path.c_str(), R_OK) == 0) {
    busbar::mark_used(path);
    return CompileResult::ok;
  }
  Slot slot(dir, deadline_ms);
  if (!slot.taken()) {
    error = "other programs of this project compile kernels: try again later";
    return CompileResult::limit_exceeded;
  }
  return run_c_compiler(kernel, path, deadline_ms, error);
}

}  // namespace softgpu::jit
