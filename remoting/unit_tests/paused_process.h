// A process that can be killed, in place of a session server.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/pidfd.h"

namespace busbar::launcher {

// It ends with its test also if an assertion fails: no other test waits for it.
class PausedProcess {
 public:
  PausedProcess() : pid_(fork()) {
    if (pid_ == 0)
      for (;;) pause();
    pidfd_ = open_pidfd(pid_);
  }
  ~PausedProcess() {
    end();
    close(pidfd_);
  }
  PausedProcess(const PausedProcess&) = delete;
  int pidfd() const { return pidfd_; }
  uint32_t pid() const { return (uint32_t)pid_; }
  void end() {
    if (ended_) return;
    ended_ = true;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
  int pidfd_ = -1;
  bool ended_ = false;
};

}  // namespace busbar::launcher
