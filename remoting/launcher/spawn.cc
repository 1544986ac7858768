// Gets session servers from the spawner. Spare processes are started in advance, because loading
// the driver takes most of the time that a program would wait for.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "launcher/own_layers.h"
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
  if (reply.pid) {
    newest_layers_ = reply.isolation | own_layers();
    return {(pid_t)reply.pid, pair[0], pipe[0], reply.isolation};
  }
  close_process(pair[0], pipe[0]);
  return {};
}

Sessions::Process Sessions::take_spare() {
  std::lock_guard lock(mutex_);
  if (spares_.empty()) return {};
  Process p = spares_.back();
  spares_.pop_back();
  return p;
}

Sessions::Process Sessions::take_process(const Grant& grant) {
  const control::Allocation& a = grant.allocation;
  for (bool fresh = false; !fresh;) {
    Process p = take_spare();
    fresh = p.fd < 0;
    if (fresh) p = spawn();
    if (p.fd < 0) continue;
    if (open_cage(settings_.runtime, (uint32_t)p.pid, a.id, a.tenant)) return p;
    close_process(p.fd, p.exit_pipe);  // it has ended, or the spawner has: it ends with its socket
  }
  return {};
}

void Sessions::start_spares() {
  std::this_thread::sleep_for(kSpareDelay);
  for (size_t wanted = std::max<size_t>(grants_.gpus(), 1);;) {
    {
      std::lock_guard lock(mutex_);
      if (spares_.size() + starting_ >= wanted) return;
      ++starting_;
    }
    Process fresh = spawn();
    std::lock_guard lock(mutex_);
    --starting_;
    if (fresh.fd < 0) return;
    spares_.push_back(fresh);
  }
}

}  // namespace busbar::launcher
