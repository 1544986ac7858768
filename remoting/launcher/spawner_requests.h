// Requests to the spawner, which starts session servers in cages.
//
// Thread safety: any thread. Each request blocks until its reply, for some seconds at most.
#pragma once
#include <string>

#include "control/spawn_messages.h"
#include "launcher/gpu_set.h"

namespace busbar::launcher {

// Starts a session server with its start socket. It sees these GPUs only. `exit_pipe` gets its exit
// status as an int. The reply has pid 0 on failure.
control::SpawnReply start_process(const std::string& runtime, const GpuSet& gpus, int start_socket,
                                  int exit_pipe);

// Shows the folders of an allocation in the cage of a session server. False if it has ended or the
// spawner did not start it.
bool open_cage(const std::string& runtime, uint32_t pid, const uint8_t* allocation,
               const uint8_t* tenant);

}  // namespace busbar::launcher
