// Gets session servers from the spawner. One spare process is always started in advance, because
// loading the driver takes most of the time that a program would wait for.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "launcher/sessions.h"
#include "launcher/spawner_requests.h"

namespace busbar::launcher {

namespace {
// Leaves the processor to the program whose session was just opened.
constexpr auto kSpareDelay = std::chrono::milliseconds(100);

void close_process(int start_socket, int exit_pipe) {
  ::close(start_socket);
  ::close(exit_pipe);
}

}  // namespace

Sessions::Process Sessions::spawn() const {
  int pair[2], pipe[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return {};
  if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK)) {
    close_process(pair[0], pair[1]);
    return {};
  }
  control::SpawnReply reply = start_process(settings_.runtime, pair[1], pipe[1]);
  close_process(pair[1], pipe[1]);
  if (reply.pid) return {(pid_t)reply.pid, pair[0], pipe[0], reply.isolation};
  close_process(pair[0], pipe[0]);
  return {};
}

Sessions::Process Sessions::take_spare() {
  Process p;
  std::lock_guard lock(mutex_);
  std::swap(p, spare_);
  return p;
}

Sessions::Process Sessions::take_process(const Grant& grant) {
  const control::Allocation& a = grant.allocation;
  Process p = take_spare();
  for (bool fresh : {false, true}) {
    if (fresh) p = spawn();
    if (p.fd < 0) continue;
    if (open_cage(settings_.runtime, (uint32_t)p.pid, a.id, a.tenant)) return p;
    close_process(p.fd, p.exit_pipe);  // it has ended, or the spawner has: it ends with its socket
  }
  return {};
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
    close_process(fresh.fd, fresh.exit_pipe);  // another thread was faster
}

}  // namespace busbar::launcher
