// Blocking of SIGPIPE for a scope.
//
// Thread safety: affects the signal mask of the calling thread only.
#pragma once
#include <signal.h>
#include <time.h>

namespace busbar::client {

// Keeps a write to a closed socket from ending the program. A SIGPIPE raised in the scope is
// discarded at its end.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeGuard() {
    timespec now{0, 0};
    if (!sigismember(&before_, SIGPIPE))
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace busbar::client
