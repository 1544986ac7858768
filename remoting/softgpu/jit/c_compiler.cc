#include "softgpu/jit/c_compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "softgpu/jit/confinement.h"
#include "softgpu/jit/limits.h"

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
constexpr size_t kErrorBytes = 16384;
constexpr int kStartFailed = 127;

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

bool write_file(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  size_t at = 0;
  while (at < text.size()) {
    ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += (size_t)n;
  }
  close(fd);
  return at == text.size();
}

// A folder for the files of one compilation, which ends with this object.
class Workplace {
 public:
  Workplace() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base && *base ? base : "/tmp") + "/softgpu-XXXXXX";
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[noreturn]] void become_c_compiler(const Workplace& work, int output, const char* level) {
  setpgid(0, 0);
  int input = open((work.path() + "/kernel.c").c_str(), O_RDONLY | O_CLOEXEC);
  dup2(input, 0);
  dup2(output, 1);
  dup2(output, 2);
  setenv("TMPDIR", work.path().c_str(), 1);
  setenv("LC_ALL", "C", 1);  // exceeded_limit() reads its messages
  std::string cc = c_compiler(), target = work.path() + "/kernel.so";
  std::vector<char*> argv = {cc.data(), const_cast<char*>(level)};
  for (auto& f : kFlags) argv.push_back(const_cast<char*>(f.c_str()));
  for (const char* f : {"-o", target.c_str(), "-lm"}) argv.push_back(const_cast<char*>(f));
  argv.push_back(nullptr);
  if (confine_c_compiler(cc, work.path())) execvp(argv[0], argv.data());
  _exit(kStartFailed);
}

void read_output(int fd, std::string& error) {
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0)
    if (error.size() < kErrorBytes) error.append(buffer, (size_t)n);
}

// Read the output of a process until it ends or the deadline passes. Return true if it has ended.
bool watch(pid_t pid, int output, int64_t deadline_ms, std::string& error) {
  int process = (int)syscall(SYS_pidfd_open, pid, 0);
  pollfd waits[] = {{process, POLLIN, 0}, {output, POLLIN, 0}};
  bool ended = false;
  while (process >= 0 && !ended && time_left_ms(deadline_ms)) {
    poll(waits, 2, time_left_ms(deadline_ms));
    read_output(output, error);
    if (waits[1].revents & POLLHUP) waits[1].fd = -1;
    ended = waits[0].revents;
  }
  if (process >= 0) close(process);
  return ended;
}

// Its programs end with these messages when they reach a limit of the system.
bool exceeded_limit(const std::string& error) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"out of memory", "memory exhausted", "allocate memory",
                                         "limit exceeded", "File too large", "No space left",
                                         "signal terminated program"},
      [&](const char* text) { return error.find(text) != std::string::npos; });
}

CompileResult result_of(bool ended, int status, std::string& error) {
  if (!ended) {
    error = "the C compiler was ended after the time limit of " +
            std::to_string(request_milliseconds() / 1000) + " s: make the kernel smaller";
    return CompileResult::limit_exceeded;
  }
  if (status == 0) return CompileResult::ok;
  if (WIFSIGNALED(status) || exceeded_limit(error)) {
    error = "the C compiler exceeded a limit of memory, time or file size: make the kernel smaller";
    return CompileResult::limit_exceeded;
  }
  if (error.empty())
    error = "the C compiler " + c_compiler() + " could not be run (wait status " +
            std::to_string(status) + ")";
  return CompileResult::failed;
}

CompileResult run_in(const Workplace& work, const char* level, int64_t deadline_ms,
                     std::string& error) {
  int out[2];
  if (pipe2(out, O_CLOEXEC | O_NONBLOCK)) return CompileResult::failed;
  pid_t pid = fork();
  if (pid == 0) become_c_compiler(work, out[1], level);
  close(out[1]);
  if (pid < 0) {
    close(out[0]);
    error = "no process could be started for the C compiler";
    return CompileResult::limit_exceeded;
  }
  setpgid(pid, pid);  // the child does it, too: either may be first
  bool ended = watch(pid, out[0], deadline_ms, error);
  kill(-pid, SIGKILL);
  int status = 1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  close(out[0]);
  return result_of(ended, status, error);
}

// Copy the library to a new file, which gets its name when it is complete.
bool keep(const std::string& made, const std::string& library) {
  std::string fresh = library + ".XXXXXX";
  int fd = mkostemp(fresh.data(), O_CLOEXEC);
  if (fd < 0) return false;
  close(fd);
  std::error_code error;
  std::filesystem::copy_file(made, fresh, std::filesystem::copy_options::overwrite_existing, error);
  if (!error && chmod(fresh.c_str(), 0500) == 0 && rename(fresh.c_str(), library.c_str()) == 0)
    return true;
  unlink(fresh.c_str());
  return false;
}
}  // namespace

std::string c_compiler() {
  if (const char* cc = std::getenv("BUSBAR_SOFTGPU_CC"); cc && *cc) return cc;
  for (const char* path : {"/usr/bin/gcc", "/usr/bin/cc", "/usr/local/bin/gcc", "/usr/bin/clang"})
    if (access(path, X_OK) == 0) return path;
  return "cc";
}

std::string c_compiler_flags() {
  std::string all;
  for (auto& f : kFlags) all += f;
  return all;
}

CompileResult run_c_compiler(const emit::KernelSource& kernel, const std::string& library,
                             int64_t deadline_ms, std::string& error) {
  Workplace work;
  if (work.path().empty() || !write_file(work.path() + "/kernel.c", kernel.text)) {
    error = "the folder for temporary files is not writable or full";
    return CompileResult::limit_exceeded;
  }
  CompileResult result = run_in(work, optimisation_level(kernel), deadline_ms, error);
  if (result != CompileResult::ok || keep(work.path() + "/kernel.so", library)) return result;
  error = "the kernel cache is not writable or full";
  return CompileResult::failed;
}

}  // namespace softgpu::jit
