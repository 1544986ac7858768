#include "softgpu/jit/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "softgpu/jit/limits.h"

extern char** environ;

namespace softgpu::jit {

// The process answers at the end of its time limit. It is given up if it does not.
static constexpr int64_t kAnswerMs = 10'000;

static std::string program_path() {
  if (const char* p = std::getenv("BUSBAR_SOFTGPU_COMPILER"); p && *p) return p;
  Dl_info info;
  std::string dir = ".";
  if (dladdr((void*)&program_path, &info) && info.dli_fname) dir = info.dli_fname;
  return dir.substr(0, dir.rfind('/')) + "/softgpu-compiler";
}

bool Compiler::start() {
  // The spawner has started the process in a cage of its own.
  if (const char* fd = std::getenv("BUSBAR_SOFTGPU_COMPILER_FD"); fd && *fd) {
    if (started_) return false;
    fd_ = std::atoi(fd);
    started_ = true;
    return fcntl(fd_, F_SETFD, FD_CLOEXEC) == 0;
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  std::string path = program_path();
  char* argv[] = {path.data(), nullptr};
  // LD_PRELOAD and LD_LIBRARY_PATH may name the client library: the compiler runs without them.
  std::string clean[64];
  char* env[65];
  int n = 0;
  for (char** e = environ; *e && n < 64; ++e)
    if (std::string(*e).rfind("LD_PRELOAD=", 0) && std::string(*e).rfind("LD_LIBRARY_PATH=", 0)) {
      clean[n] = *e;
      env[n] = clean[n].data();
      ++n;
    }
  env[n] = nullptr;
  pid_t pid;
  int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, env);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (error) {
    close(pair[0]);
    return false;
  }
  fd_ = pair[0];
  return true;
}

Status Compiler::call(Request request, const std::string& ptx, const std::string& kernel,
                      std::string& body) {
  std::lock_guard lock(mutex_);
  Writer w;
  w.text(kernel);
  w.text(ptx);
  uint64_t status;
  if (fd_ < 0 && !start()) {
    body = "the compiler process of the software GPU could not be started";
    return Status::compiler_failed;
  }
  int64_t deadline_ms = now_ms() + (int64_t)request_milliseconds() + kAnswerMs;
  if (!send_message(fd_, (uint64_t)request, w.bytes, deadline_ms) ||
      !receive_message(fd_, status, body, deadline_ms)) {
    close(fd_);
    fd_ = -1;
    body = "the compiler process of the software GPU ended while it processed this module";
    return Status::compiler_failed;
  }
  return (Status)status;
}

Status Compiler::describe(const std::string& ptx, ModuleDescription& out, std::string& log) {
  Status s = call(Request::describe, ptx, "", log);
  if (s == Status::ok && !decode(log, out)) return Status::compiler_failed;
  if (s == Status::ok) log.clear();
  return s;
}

Status Compiler::resolve(const std::string& ptx, std::string& log) {
  return call(Request::resolve, ptx, "", log);
}

std::string Compiler::examine(const std::string& ptx) {
  std::string text;
  return call(Request::examine, ptx, "", text) == Status::ok ? text : "";
}

Status Compiler::compile(const std::string& ptx, const std::string& kernel, Compiled& out,
                         std::string& log) {
  Status s = call(Request::compile, ptx, kernel, log);
  if (s == Status::ok && !decode(log, out)) return Status::compiler_failed;
  if (s == Status::ok) log.clear();
  return s;
}

}  // namespace softgpu::jit
