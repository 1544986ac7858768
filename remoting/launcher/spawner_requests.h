// Requests to the spawner, which starts session servers in cages.
//
// Thread safety: any thread. Each request blocks until its turn and then until its reply, for some
// seconds at most.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "control/spawn_messages.h"
#include "launcher/gpu_set.h"
#include "launcher/spawner_queue.h"

namespace busbar::launcher {

constexpr char kNoTenant[] = "";  // of requests for spares
constexpr std::chrono::seconds kSpawnerPatience{10};
constexpr char kNotServed[] = "the node has started no session server for this program in time";

struct SpawnerAnswer {
  control::SpawnReply reply{};    // pid 0: the request failed
  const char* refusal = nullptr;  // why it was not sent
};

class SpawnerRequests {
 public:
  // A request waits for its turn for `patience` at most, and then as long for its reply, but for
  // that not less than 10 s.
  explicit SpawnerRequests(const std::string& runtime,
                           std::chrono::milliseconds patience = kSpawnerPatience)
      : socket_(runtime + control::kSpawnerSocket), patience_(patience) {}

  // Starts a session server for a tenant, with its start socket. It sees these GPUs only.
  // `exit_pipe` gets its exit status as an int.
  SpawnerAnswer start_process(const std::string& tenant, const GpuSet& gpus, int start_socket,
                              int exit_pipe);
  // Shows the folders of an allocation in the cage of a session server. Fails if it has ended or
  // the spawner did not start it.
  SpawnerAnswer open_cage(uint32_t pid, const uint8_t* allocation, const uint8_t* tenant);
  // Returns the number of requests that wait for their turn.
  size_t waiting() { return queue_.waiting(); }

 private:
  SpawnerAnswer request(const std::string& tenant, const control::SpawnRequest& request,
                        const std::vector<int>& attached);
  const std::string socket_;
  const std::chrono::milliseconds patience_;
  SpawnerQueue queue_;
};

}  // namespace busbar::launcher
