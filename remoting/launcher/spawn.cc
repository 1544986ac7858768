// Gets session servers from the spawner. Spare processes are started in advance, because loading
// the driver takes most of the time that a program would wait for.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "control/hex.h"
#include "launcher/own_layers.h"
#include "launcher/sessions.h"

namespace busbar::launcher {

namespace {
// Leaves the processor to the program whose session was just opened.
constexpr auto kSpareDelay = std::chrono::milliseconds(100);

void close_process(int start_socket, int exit_pipe) {
  ::close(start_socket);
  ::close(exit_pipe);
}

}  // namespace

Sessions::Process Sessions::spawn(const std::string& tenant, const GpuSet& gpus) {
  int pair[2], pipe[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return {};
  if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK)) {
    close_process(pair[0], pair[1]);
    return {};
  }
  auto [reply, refusal] = spawner_.start_process(tenant, gpus, pair[1], pipe[1]);
  close_process(pair[1], pipe[1]);
  if (reply.pid) {
    newest_layers_ = reply.isolation | own_layers();
    return {(pid_t)reply.pid, pair[0], pipe[0], reply.isolation};
  }
  close_process(pair[0], pipe[0]);
  return {.refusal = refusal};
}

// Waits for a spare that is starting: it may have the last user of the cages, and is ready sooner.
Sessions::Process Sessions::take_spare(const GpuSet& gpus) {
  std::unique_lock lock(mutex_);
  spare_started_.wait(lock, [&] { return spares_.contains(gpus) || !starting_.contains(gpus); });
  auto spare = spares_.find(gpus);
  if (spare == spares_.end()) return {};
  Process p = spare->second;
  spares_.erase(spare);
  return p;
}

Sessions::Process Sessions::take_process(const Grant& grant) {
  const control::Allocation& a = grant.allocation;
  GpuSet gpus = gpus_of(a);
  for (;;) {
    Process p = take_spare(gpus);
    bool fresh = p.fd < 0;
    if (fresh) p = spawn(control::hex(a.tenant, sizeof a.tenant), gpus);
    if (p.fd < 0) return p;
    auto [reply, refusal] = spawner_.open_cage((uint32_t)p.pid, a.id, a.tenant);
    if (reply.pid == (uint32_t)p.pid) return p;
    close_process(p.fd, p.exit_pipe);  // it has ended, or the spawner has: it ends with its socket
    if (fresh || refusal) return {.refusal = refusal};
  }
}

// Returns the GPUs of a spare that is missing, which counts as starting.
std::optional<GpuSet> Sessions::next_spare() {
  auto wanted = grants_.expected_programs();
  std::lock_guard lock(mutex_);
  std::erase_if(spares_, [&](auto& spare) {
    if (wanted.contains(spare.first)) return false;
    close_process(spare.second.fd, spare.second.exit_pipe);  // it ends without its start socket
    return true;
  });
  for (auto& [gpus, count] : wanted) {
    if (spares_.count(gpus) + starting_.count(gpus) >= count) continue;
    starting_.insert(gpus);
    return gpus;
  }
  return {};
}

void Sessions::start_spares() {
  std::this_thread::sleep_for(kSpareDelay);
  while (auto gpus = next_spare()) {
    Process fresh = spawn(kNoTenant, *gpus);
    std::lock_guard lock(mutex_);
    starting_.erase(starting_.find(*gpus));
    if (fresh.fd >= 0) spares_.emplace(*gpus, fresh);
    spare_started_.notify_all();
    if (fresh.fd < 0) return;
  }
  if (newest_layers_) return;
  Process ended = spawn(kNoTenant, {});  // its start shows how this node isolates sessions
  if (ended.fd >= 0) close_process(ended.fd, ended.exit_pipe);
}

}  // namespace busbar::launcher
