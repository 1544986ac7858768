// Starts session servers. One spare process is always started in advance, because loading the
// driver takes most of the time that a program would wait for.
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "launcher/sessions.h"

extern char** environ;

namespace busbar::launcher {

namespace {
// Leaves the processor to the program whose session was just opened.
constexpr auto kSpareDelay = std::chrono::milliseconds(100);

pid_t spawn_program(const std::string& program, const std::string& driver, int start_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, start_fd, 3);
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char* argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>("--driver"),
                  const_cast<char*>(driver.c_str()), nullptr};
  pid_t pid = -1;
  if (posix_spawn(&pid, program.c_str(), &actions, &attributes, argv, environ)) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return pid;
}

}  // namespace

Sessions::Process Sessions::spawn() const {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return {};
  pid_t pid = spawn_program(settings_.session_program, settings_.driver, pair[1]);
  ::close(pair[1]);
  if (pid < 0) {
    ::close(pair[0]);
    return {};
  }
  return {pid, pair[0]};
}

Sessions::Process Sessions::take_spare() {
  Process p;
  {
    std::lock_guard lock(mutex_);
    std::swap(p, spare_);
  }
  char byte;
  bool ended = p.fd >= 0 && recv(p.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  if (ended) {
    ::close(p.fd);
    waitpid(p.pid, nullptr, WNOHANG);
    p = {};
  }
  return p.fd >= 0 ? p : spawn();
}

void Sessions::start_spare() {
  {
    std::lock_guard lock(mutex_);
    if (spare_.fd >= 0) return;
  }
  std::this_thread::sleep_for(kSpareDelay);
  Process fresh = spawn();
  std::lock_guard lock(mutex_);
  if (spare_.fd < 0)
    spare_ = fresh;
  else if (fresh.fd >= 0)
    ::close(fresh.fd);  // another thread was faster; the process ends with its socket
}

}  // namespace busbar::launcher
