// The thread that resolves faults of managed memory.
//
// Thread safety: any thread.
#pragma once
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <thread>

namespace busbar::client {

// Starts a detached thread that no signal of the program interrupts. Returns false where the system
// permits no more threads: an exception must not leave the functions of the driver's C interface.
template <typename F>
[[nodiscard]] bool start_fault_thread(F body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread(body).detach();
  } catch (const std::exception&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// Reads one message. Returns false if the descriptor has an error.
inline bool read_whole(int fd, void* message, size_t bytes) {
  ssize_t n;
  do n = ::read(fd, message, bytes);
  while (n < 0 && (errno == EINTR || errno == EAGAIN));
  return n == (ssize_t)bytes;
}

}  // namespace busbar::client
