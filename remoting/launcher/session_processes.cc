#include "launcher/session_processes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "control/hex.h"
#include "launcher/own_layers.h"

namespace busbar::launcher {

namespace {
// Leaves the processor to the program whose session was just opened.
constexpr auto kSpareDelay = std::chrono::milliseconds(100);
// Longer than the request before waits for a spare that starts: 10 s for its turn at the spawner
// and 10 s for the reply.
constexpr auto kSparePatience = std::chrono::seconds(25);
}  // namespace

void SessionProcess::close() const {
  for (int end : {fd, exit_pipe})
    if (end >= 0) ::close(end);
}

SessionProcess SessionProcesses::spawn(const std::string& tenant, const GpuSet& gpus) {
  int pair[2], pipe[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return {};
  if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK)) {
    for (int end : pair) ::close(end);
    return {};
  }
  auto [reply, refusal] = spawner_.start_process(tenant, gpus, pair[1], pipe[1]);
  ::close(pair[1]);
  ::close(pipe[1]);
  SessionProcess process{(pid_t)reply.pid, pair[0], pipe[0], reply.isolation};
  if (reply.pid) {
    newest_layers_ = reply.isolation | own_layers();
    return process;
  }
  process.close();
  return {.refusal = refusal};
}

// Waits for a spare that is starting: it may have the last user of the cages, and is ready sooner.
SessionProcess SessionProcesses::wait_for_spare(const GpuSet& gpus) {
  MutexLock lock(mutex_);
  while (!spares_.contains(gpus) && starting_.contains(gpus)) spare_started_.wait(lock);
  auto spare = spares_.find(gpus);
  if (spare == spares_.end()) return {};
  SessionProcess p = spare->second;
  spares_.erase(spare);
  opening_.insert(gpus);
  return p;
}

SpawnerQueue& SessionProcesses::turns_of(const GpuSet& gpus) {
  MutexLock lock(mutex_);
  return turns_[gpus];
}

// Tenants go in turn here as at the spawner: one with many programs would take each spare.
SessionProcess SessionProcesses::take_spare(const std::string& tenant, const GpuSet& gpus) {
  SpawnerQueue& queue = turns_of(gpus);
  if (!queue.enter(tenant, kSparePatience)) return {.refusal = kNotServed};
  SessionProcess p = wait_for_spare(gpus);
  queue.leave();
  return p;
}

SessionProcess SessionProcesses::take(const control::Allocation& a) {
  GpuSet gpus = gpus_of(a);
  std::string tenant = control::hex(a.tenant, sizeof a.tenant);
  for (;;) {
    SessionProcess p = take_spare(tenant, gpus);
    bool is_spare = p.fd >= 0;
    if (!is_spare && !p.refusal) p = spawn(tenant, gpus);
    if (p.fd < 0) return p;
    auto [reply, refusal] = spawner_.open_cage((uint32_t)p.pid, a.id, a.tenant);
    if (is_spare) end_opening(gpus, refusal ? &p : nullptr);
    if (reply.pid == (uint32_t)p.pid) return p;
    if (!is_spare || !refusal) p.close();  // it has ended, or the spawner has
    if (!is_spare || refusal) return {.refusal = refusal};
  }
}

// Puts back a spare that was not asked to open.
void SessionProcesses::end_opening(const GpuSet& gpus, const SessionProcess* unopened) {
  MutexLock lock(mutex_);
  opening_.erase(opening_.find(gpus));
  if (!unopened) return;
  spares_.emplace(gpus, *unopened);
  spare_started_.notify_all();
}

// Returns the GPUs of a spare that is missing, which counts as starting.
std::optional<GpuSet> SessionProcesses::next_spare(const std::map<GpuSet, size_t>& wanted) {
  MutexLock lock(mutex_);
  std::erase_if(spares_, [&](auto& spare) {
    if (wanted.contains(spare.first)) return false;
    spare.second.close();
    return true;
  });
  for (auto& [gpus, count] : wanted) {
    if (spares_.count(gpus) + starting_.count(gpus) + opening_.count(gpus) >= count) continue;
    starting_.insert(gpus);
    return gpus;
  }
  return {};
}

void SessionProcesses::start_spares(const std::function<std::map<GpuSet, size_t>()>& wanted) {
  std::this_thread::sleep_for(kSpareDelay);
  while (auto gpus = next_spare(wanted())) {
    SessionProcess fresh = spawn(kNoTenant, *gpus);
    MutexLock lock(mutex_);
    starting_.erase(starting_.find(*gpus));
    if (fresh.fd >= 0) spares_.emplace(*gpus, fresh);
    spare_started_.notify_all();
    if (fresh.fd < 0) return;
  }
  // The start of one shows how this node isolates sessions.
  if (!newest_layers_) spawn(kNoTenant, {}).close();
}

size_t SessionProcesses::waiting() {
  MutexLock lock(mutex_);
  size_t count = spawner_.waiting();
  for (auto& [gpus, queue] : turns_) count += queue.waiting();
  return count;
}

}  // namespace busbar::launcher
