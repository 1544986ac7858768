#include "softgpu/jit/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace softgpu::jit {

namespace {
// PTX defines aliasing and wrapping. Contraction to fused multiply-add would change results. A
// frame that is larger than the guard page must not step over it.
const std::vector<std::string> kFlags = {
#ifdef BUSBAR_SMALL_WINDOW
    "-DBUSBAR_SMALL_WINDOW",
#endif
    "-std=gnu11",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-fstack-clash-protection",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
    "-Wl,-z,defs",
    "-x",
    "c",
    "-"};

constexpr size_t kLongKernelBytes = 200 << 10;  // of C without indentation

size_t bytes_without_indentation(const std::string& text) {
  size_t bytes = 0;
  bool indentation = true;
  for (char c : text) {
    indentation = c == '\n' || (indentation && c == ' ');
    bytes += !(indentation && c == ' ');
  }
  return bytes;
}

// Thread loops are worth vectorising. Long kernels take minutes with full optimisation.
const char* optimisation_level(const emit::KernelSource& kernel) {
  if (bytes_without_indentation(kernel.text) > kLongKernelBytes) return "-O1";
  return kernel.serial ? "-O3" : "-O2";
}

std::string compiler() {
  if (const char* cc = std::getenv("BUSBAR_SOFTGPU_CC"); cc && *cc) return cc;
  for (const char* path : {"/usr/bin/gcc", "/usr/bin/cc", "/usr/local/bin/gcc", "/usr/bin/clang"})
    if (access(path, X_OK) == 0) return path;
  return "cc";
}

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

bool write_all(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}

[[noreturn]] void become_compiler(int input, int output, const std::string& target,
                                  const char* level) {
  dup2(input, 0);
  dup2(output, 1);
  dup2(output, 2);
  rlimit cpu{120, 120};
  setrlimit(RLIMIT_CPU, &cpu);
  std::string cc = compiler();
  std::vector<char*> argv = {cc.data(), const_cast<char*>(level)};
  for (auto& f : kFlags) argv.push_back(const_cast<char*>(f.c_str()));
  for (const char* f : {"-o", target.c_str(), "-lm"}) argv.push_back(const_cast<char*>(f));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

bool run_compiler(const emit::KernelSource& kernel, const std::string& target, std::string& error) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC)) return false;
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]);
    close(in[1]);
    return false;
  }
  pid_t pid = fork();
  if (pid == 0) become_compiler(in[0], out[1], target, optimisation_level(kernel));
  close(in[0]);
  close(out[1]);
  if (pid > 0) write_all(in[1], kernel.text);
  close(in[1]);
  char buffer[4096];
  ssize_t n;
  while ((n = read(out[0], buffer, sizeof buffer)) > 0)
    if (error.size() < 16384) error.append(buffer, (size_t)n);
  close(out[0]);
  int status = 1;
  if (pid > 0)
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  if (status != 0 && error.empty())
    error = "the C compiler " + compiler() + " could not be run or was killed (wait status " +
            std::to_string(status) + ")";
  return pid > 0 && status == 0;
}
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

std::string library_for(const emit::KernelSource& kernel, std::string& error) {
  static const std::string dir = cache_directory(), cpu = processor();
  struct stat st;
  if (stat(dir.c_str(), &st) || st.st_uid != geteuid() || (st.st_mode & 022)) {
    error = "the kernel cache " + dir +
            " is not a private folder of this user: set BUSBAR_SOFTGPU_CACHE "
            "to a folder with mode 0700";
    return "";
  }
  std::string key = cpu + compiler();
  for (auto& f : kFlags) key += f;
  std::string path = dir + "/" + sha256(key + '\0' + kernel.text) + ".so";
  if (access(path.c_str(), R_OK) == 0) return path;
  std::string fresh = path + "." + std::to_string(getpid());
  if (!run_compiler(kernel, fresh, error)) {
    unlink(fresh.c_str());
    return "";
  }
  chmod(fresh.c_str(), 0500);
  if (rename(fresh.c_str(), path.c_str())) {
    error = "the kernel cache " + dir + " is not writable";
    unlink(fresh.c_str());
    return "";
  }
  return path;
}

}  // namespace softgpu::jit
