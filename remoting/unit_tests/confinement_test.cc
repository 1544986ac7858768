// The system calls of the translator, which reads PTX.
#include "softgpu/jit/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace softgpu::jit {
namespace {

// Returns the wait status of a translator that does something.
int status_after(const std::function<void()>& work) {
  pid_t pid = fork();
  if (pid == 0) {
    if (!confine_translator()) _exit(2);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST(ConfinementTest, TranslatorMayUseMemory) {
  EXPECT_EQ(status_after([] { std::vector<char>(64 << 20, 'x'); }), 0);
}

TEST(ConfinementTest, TranslatorMayUseNothingElse) {
  const std::map<std::string, std::function<void()>> attempts = {
      {"open", [] { (void)!open("/etc/passwd", O_RDONLY); }},
      {"execve", [] { execl("/bin/true", "true", (char*)nullptr); }},
      {"fork", [] { (void)!fork(); }},
      {"socket", [] { (void)!socket(AF_INET, SOCK_STREAM, 0); }},
      {"unix socket", [] { (void)!socket(AF_UNIX, SOCK_STREAM, 0); }},
      {"recvmsg", [] { (void)!recvmsg(0, nullptr, 0); }},
      {"kill", [] { kill(getppid(), 0); }},
      {"ptrace", [] { syscall(SYS_ptrace, 0, 0, 0, 0); }},
      {"unshare", [] { unshare(CLONE_NEWUSER); }},
      {"memory with code",
       [] { mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }},
      {"unknown", [] { syscall(9999); }},
  };
  for (auto& [name, attempt] : attempts) {
    int status = status_after(attempt);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << name;
  }
}

}  // namespace
}  // namespace softgpu::jit
