// The thread that resolves faults of managed memory.
//
// Thread safety: any thread.
#pragma once
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace busbar::client {

// Starts a detached thread that no signal of the program interrupts.
template <typename F>
void start_fault_thread(F body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(body).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Reads one message. Returns false if the descriptor has an error.
inline bool read_whole(int fd, void* message, size_t bytes) {
  ssize_t n;
  do n = ::read(fd, message, bytes);
  while (n < 0 && (errno == EINTR || errno == EAGAIN));
  return n == (ssize_t)bytes;
}

}  // namespace busbar::client
