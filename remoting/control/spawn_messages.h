// Requests of the launcher to the spawner over a Unix socket, one for each connection.
//
// Thread safety: constant layouts.
#pragma once
#include <cstdint>

#include "wire/format.h"

namespace busbar::control {

constexpr char kSpawnerSocket[] = "/spawner.sock";  // in the runtime folder
// Folders of a cage, and what is shown in them when its allocation is known.
constexpr char kSockets[] = "/sockets", kCageSockets[] = "/sockets/allocation";
constexpr char kImages[] = "/images", kCageImages[] = "/images/tenant";
constexpr char kKernels[] = "/kernels", kCageKernels[] = "/kernels/tenant";

enum class SpawnOp : uint32_t {
  start = 1,  // a session server, with its start socket and a pipe for its exit status
  open = 2,   // shows the folders of an allocation in the cage of a session server
};
struct SpawnRequest {
  uint32_t op;                         // SpawnOp
  uint32_t pid;                        // of the session server; 0 for start
  uint8_t allocation[16], tenant[16];  // of open
  uint32_t gpus;                       // of start: the cage shows these only
  uint8_t gpu_uuid[wire::kMaxDevices][16];
};
struct SpawnReply {
  uint32_t pid;        // 0: the request failed
  uint32_t isolation;  // bits of control::Isolation
};
static_assert(sizeof(SpawnRequest) == 300 && sizeof(SpawnReply) == 8);

}  // namespace busbar::control
