// A write to a closed socket must not end the program: SIGPIPE is blocked for a scope and taken
// back if it came.
#pragma once
#include <signal.h>
#include <time.h>

namespace busbar::client {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    timespec now{0, 0};
    if (!sigismember(&before_, SIGPIPE))
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace busbar::client
