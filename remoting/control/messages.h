// What agent, launcher and session servers say to each other over Unix sockets (0600). Little
// endian, fixed layouts, bounded.
#pragma once
#include <cstdint>

#include "wire/format.h"

namespace busbar::control {

constexpr uint32_t kMaxAllocations = 1024, kMaxKeys = 4, kMaxSessions = 4096;
constexpr uint32_t kMaxMessageBytes = 4u << 20;
constexpr uint32_t kMaxPathBytes = 512;

struct Header {
  uint32_t bytes, kind;
};  // bytes: of what follows

// ---- agent and launcher ----
enum class Kind : uint32_t {
  grants = 1,    // Grants, then Allocation[]
  sessions = 2,  // empty; the answer is SessionList, then SessionRecord[]
  ok = 100,
  session_list = 101,
  refused = 102,
  // ---- launcher and session server ----
  start = 200,   // SessionStart, with the client's socket
  attach = 201,  // empty, with the socket of a bulk connection
  status = 202,  // empty; the answer is SessionStatus
  end = 203,     // EndReason
  share = 204,  // between session servers of one allocation: wire::IpcToken; the answer carries the
                // memory
};

struct Partition {
  uint8_t gpu_uuid[16];
  uint64_t memory_bytes;
  uint32_t compute_percent, reserved;
};
struct Allocation {
  uint8_t id[16], tenant[16];
  uint64_t fence_epoch, fence_counter;  // sessions with an older ticket end
  uint32_t partitions, flags;
  Partition partition[wire::kMaxDevices];
};
struct TicketKey {
  uint8_t id[8], public_key[32];
};
struct Grants {
  uint64_t generation;
  int64_t appliance_seconds;  // the appliance's clock; the launcher carries it on monotonically
  uint8_t node_id[16];
  TicketKey keys[kMaxKeys];
  uint32_t key_count, allocation_count;
};

enum class SessionState : uint32_t { opening = 1, running = 2, closed = 4 };
struct SessionRecord {
  uint8_t id[16], allocation[16];
  uint32_t pid, state;
  uint64_t opened_seconds, bytes_in, bytes_out, launches, memory_bytes;
  uint32_t client_pid, isolation;  // bits: 1 seccomp, 2 no_new_privs, 4 rlimits, 8 user, 16 cgroup
  char program[56], reason[104], client_address[64], refused[256];
  uint64_t
      partition_bytes[wire::kMaxDevices];  // of each of the allocation's partitions on this node
};
struct SessionList {
  uint64_t generation;
  uint32_t count, port;
};

// ---- launcher and session server ----
struct SessionStart {
  uint8_t id[16];
  uint8_t key[32];  // of the session's TLS, exported from the first handshake
  uint32_t partitions, client_pid;
  uint8_t meeting[16];
  uint64_t free_addresses[wire::kArenaSlots];
  Partition partition[wire::kMaxDevices];
  char ledger_path[kMaxPathBytes], image_folder[kMaxPathBytes], driver[kMaxPathBytes],
      socket_path[kMaxPathBytes];
};
// The answer to it: whether the client was met, and the description of the devices.
struct SessionReady {
  uint32_t shared, bytes;
  uint8_t description[wire::kMaxDescriptionBytes];
};
struct SessionStatus {
  uint64_t bytes_in, bytes_out, launches, memory_bytes;
  uint32_t isolation, running;
  uint64_t partition_bytes[wire::kMaxDevices];
};
struct EndReason {
  char text[104];
};

static_assert(sizeof(Partition) == 32 && sizeof(Allocation) == 568 && sizeof(Grants) == 200 &&
              sizeof(SessionRecord) == 696 && sizeof(SessionStatus) == 168);

// Whole messages, with an optional descriptor. False when the other side is gone or a length is out
// of bounds.
bool send_message(int fd, Kind kind, const void* body, uint32_t bytes, int attached_fd = -1);
bool receive_message(int fd, Header& header, void* body, uint32_t room, int* attached_fd = nullptr);

int listen_at(const char* path);  // 0600, replaces a stale socket; -1 on failure
int connect_to(const char* path);

}  // namespace busbar::control
