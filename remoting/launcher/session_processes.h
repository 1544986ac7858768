// Processes for sessions, which the spawner starts. Spare ones are started in advance, because
// loading the driver takes most of the time that a program would wait for.
//
// Thread safety: any thread. The mutex is not held during a request to the spawner. take() and
// start_spares() block as long as the spawner lets requests wait.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "control/messages.h"
#include "launcher/gpu_set.h"
#include "launcher/spawner_queue.h"
#include "launcher/spawner_requests.h"
#include "mutex.h"

namespace busbar::launcher {

struct SessionProcess {
  pid_t pid = -1;
  int fd = -1;                    // its start socket; -1: no process
  int exit_pipe = -1;             // gets its exit status; a read does not block
  uint32_t cage = 0;              // bits of control::Isolation
  const char* refusal = nullptr;  // why there is no process, if the spawner was not asked

  void close() const;  // it ends without its start socket
};

class SessionProcesses {
 public:
  // A request waits for its turn at the spawner for `patience` at most, and for the reply.
  explicit SessionProcesses(const std::string& runtime,
                            std::chrono::milliseconds patience = kSpawnerPatience)
      : spawner_(runtime, patience) {}

  // Returns a session server that sees the folders of the allocation, or none.
  SessionProcess take(const control::Allocation& allocation);
  // Starts the spares that are missing of those that `wanted` returns, by GPUs, and ends those of
  // other GPUs. Blocks until they are started.
  void start_spares(const std::function<std::map<GpuSet, size_t>()>& wanted);
  // Returns the layers of the session server that started last, as bits of control::Isolation; 0:
  // none has been started yet.
  uint32_t newest_layers() const { return newest_layers_; }
  // Returns the number of requests that wait for their turn, at the spawner or for a spare.
  size_t waiting();

 private:
  SessionProcess spawn(const std::string& tenant, const GpuSet& gpus);
  std::optional<GpuSet> next_spare(const std::map<GpuSet, size_t>& wanted);
  void end_opening(const GpuSet& gpus, const SessionProcess* unopened);
  SpawnerQueue& turns_of(const GpuSet& gpus);
  SessionProcess take_spare(const std::string& tenant, const GpuSet& gpus);
  SessionProcess wait_for_spare(const GpuSet& gpus);
  SpawnerRequests spawner_;
  Mutex mutex_;
  // Of those that take spares; none is removed.
  std::map<GpuSet, SpawnerQueue> turns_ GUARDED_BY(mutex_);
  // By the GPUs that their cages show.
  std::multimap<GpuSet, SessionProcess> spares_ GUARDED_BY(mutex_);
  std::condition_variable spare_started_;              // or failed to start
  std::multiset<GpuSet> starting_ GUARDED_BY(mutex_);  // of spares that a thread is about to add
  std::multiset<GpuSet> opening_ GUARDED_BY(mutex_);   // of spares that a request may put back
  std::atomic<uint32_t> newest_layers_{0};
};

}  // namespace busbar::launcher
