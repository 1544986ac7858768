// Messages between agent, launcher and session servers over Unix sockets (mode 0600). Little
// endian, fixed layouts without padding, bounded sizes. nodes/launcher_layouts.py is generated from
// this header; see remoting/codegen/control_layouts.py.
//
// Thread safety: the functions are for any thread; a connection belongs to one thread at a time.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <span>

#include "wire/format.h"

namespace busbar::control {

constexpr uint32_t kMaxKeys = 4;
// Holds the grants of a node with 64 GPUs, each of which 100 allocations share.
constexpr uint32_t kMaxMessageBytes = 8u << 20;
constexpr uint32_t kMaxPathBytes = 512;
// Ends of the names of a session's sockets: for requests, and for the offers of other sessions.
constexpr char kControlSocket[] = ".sock", kOffersSocket[] = ".offers";

struct Header {
  uint32_t body_bytes;
  uint32_t kind;
};

// ---- agent and launcher ----
enum class Kind : uint32_t {
  grants = 1,        // Grants, then Allocation[]; replied to with ok or refused
  sessions = 2,      // empty; replied to with session_list
  kill_session = 3,  // KillSession; replied to with ok, or refused if there is no such session
  over = 4,          // empty; replied to with over_list
  suspend = 5,       // SuspendSession; replied to with ok, or refused with a reason (EndReason)
  resume = 6,        // the id of a session; replied to as suspend
  suspensions = 7,   // empty; replied to with suspension_list
  shares = 8,        // empty; replied to with share_list
  ok = 100,
  session_list = 101,  // SessionList, then SessionRecord[]
  refused = 102,
  over_list = 103,        // OverList, then Holding[]
  suspension_list = 104,  // SuspensionList, then SuspensionRecord[]
  share_list = 105,       // ShareList, then ShareRecord[]
  // ---- launcher and session server ----
  start = 200,   // SessionStart, with the client's socket
  attach = 201,  // counter of a wire::BulkRequest, with the socket of the bulk connection
  status = 202,  // empty; replied to with SessionStatus
  end = 203,     // EndReason
  share = 204,   // wire::IpcToken, on an offered connection; the reply carries a descriptor and the
                 // bytes of the lease at the token's offset
  account = 205,      // empty, with the session's connection to its ledger (ledger_messages.h)
  ledger_page = 206,  // the first message on that connection: LedgerPlace, with a descriptor
  rendezvous = 207,   // empty, with a connection to the client's socket for shared memory
  turns = 208,        // empty, with the session's connection to the arbiter (turn_messages.h); on
                      // that connection the first message, with the descriptor of the page
  resized = 209,      // empty: the limits of the session's ledger have changed
  suspend_memory = 210,  // SuspendRequest
  resume_memory = 211,   // empty
  memory_wanted = 212,   // empty: another session needs what this one does not use
};

struct Partition {
  uint8_t gpu_uuid[16];
  uint64_t memory_bytes;
  uint32_t compute_percent, reserved;
};
enum class ComputeMode : uint32_t { shared = 0, capped = 1, exclusive = 2, guaranteed = 3 };
struct Allocation {
  uint8_t id[16], tenant[16];
  uint64_t fence_epoch, fence_counter;  // sessions with an older ticket end
  uint32_t partitions;
  uint32_t required_isolation;  // bits of Isolation that a session needs
  uint32_t compute_mode;        // ComputeMode: how the percentages of the partitions count
  // A session ends when its work is late for longer than this while others wait; 0: it does not.
  uint32_t max_late_seconds;
  Partition partition[wire::kMaxDevices];
  // Memory that a context of a session server takes on the GPU of each partition.
  uint64_t context_bytes[wire::kMaxDevices];
};
struct TicketKey {
  uint8_t id[8], public_key[32];
  uint8_t node_secret[32];  // X25519; opens sessions with tickets of this key (ADR 78)
};
struct Grants {
  uint64_t generation;
  int64_t appliance_seconds;  // clock of the appliance, in seconds since 1970
  uint8_t node_id[16];
  TicketKey keys[kMaxKeys];
  uint32_t key_count, allocation_count;
};

// Bits of the isolation of a session server.
enum Isolation : uint32_t {
  kSeccomp = 1,
  kNoNewPrivs = 2,
  kResourceLimits = 4,
  kUser = 8,
  kCgroup = 16,
  kFileSystem = 32,
  kNetwork = 64,
  kProcesses = 128,
  kLandlock = 256,
};

// The way in which the launcher enforces the shares of a session.
enum class Enforcement : uint32_t {
  unenforced = 0,  // the session has no connection to the arbiter
  alone = 1,       // no other allocation uses its GPUs
  turns = 2,       // it works in turns
  sliced = 3,      // a turn did not end in time: the GPU's time slices share what is left
  coarse = 4,      // it works in turns, whose work takes long to end: see longest_drain_ms
};

enum class SessionState : uint32_t { opening = 1, running = 2, closed = 4 };
struct SessionRecord {
  uint8_t id[16], allocation[16];
  uint32_t pid, state;
  uint64_t opened_seconds, bytes_in, bytes_out, launches, memory_bytes;
  uint32_t client_pid, isolation;      // bits of Isolation
  uint32_t compute_mode, enforcement;  // ComputeMode, Enforcement
  uint32_t longest_drain_ms;           // of a minute: the time that work needed to end after a turn
  // In force at the arbiter of the first GPU, as the mode is. 0: it has no connection to one.
  uint32_t compute_percent;
  char program[56], reason[104], client_address[64];
  char refused_calls[256];                      // names, separated by spaces
  uint64_t partition_bytes[wire::kMaxDevices];  // in the order of the grant
};
struct SessionList {
  uint64_t generation;
  uint32_t count, port;
  uint32_t isolation;  // bits of Isolation of all sessions; 0: none has been started yet
  uint32_t reserved;
};

struct KillSession {
  uint8_t id[16];
  char reason[104];
};

// An allocation that holds more memory than its partitions have.
struct Holding {
  uint8_t allocation[16];
  // Charges and contexts of all sessions, in the order of the grant.
  uint64_t held_bytes[wire::kMaxDevices];
};
struct OverList {
  uint64_t generation;  // of grants that are in force; the holdings were read later
  uint32_t count, reserved;
};

// The part of GPU time that an allocation has received over the last minute.
constexpr uint32_t kUnknownShare = 0xffffffff;  // the GPU was not given in turns
struct ShareRecord {
  uint8_t allocation[16];
  uint32_t received[wire::kMaxDevices];  // hundredths of a percent, in the order of the grant
};
struct ShareList {
  uint32_t count, reserved;
};

// ---- suspension, ADR 84 ----
enum class Suspension : uint32_t {
  none = 0,
  suspending = 1,  // the session was told to
  suspended = 2,   // its device memory is in host memory
  waiting = 3,     // it has work again, and waits for free device memory
  restoring = 4,   // the memory is charged again
};
struct SuspendSession {
  uint8_t id[16];
  uint32_t wait_ms, reserved;  // for the end of the work that the session has
};
struct SuspensionRecord {
  uint8_t id[16];       // of the session
  uint64_t host_bytes;  // of the node's budget
  uint32_t state, reserved;
  char reason[64];  // why the newest suspension was abandoned
};
struct SuspensionList {
  uint64_t budget_bytes, used_bytes;
  uint32_t count, reserved;
};

// ---- launcher and session server ----
struct SessionStart {
  uint8_t id[16];
  uint8_t key[32];  // of the session's TLS, exported from the first handshake
  uint32_t partitions, client_pid;
  uint32_t rendezvous;    // 1: a message with a connection to the client's socket follows
  uint32_t compute_mode;  // ComputeMode
  uint64_t free_addresses[wire::kArenaSlots];
  Partition partition[wire::kMaxDevices];
  char image_folder[kMaxPathBytes], driver[kMaxPathBytes], socket_folder[kMaxPathBytes];
};
// The reply to SessionStart, sent before the server reads a byte of its client. `shared` is 1 if
// the client is on this machine and was met. `isolation` has the server's own measures: bits of
// Isolation.
struct SessionReady {
  uint32_t shared, bytes, isolation, reserved;
  uint8_t description[wire::kMaxDescriptionBytes];
};
// Native code of a client may have changed all values.
struct SessionStatus {
  uint64_t bytes_in, bytes_out, launches;
};
struct EndReason {
  char text[104];
};
struct SuspendRequest {
  uint32_t wait_ms, reserved;
  uint64_t host_bytes;  // that it may save: what it was charged when it was told
};

static_assert(sizeof(Partition) == 32 && sizeof(Allocation) == 704 && sizeof(Grants) == 328 &&
              sizeof(SessionRecord) == 712 && sizeof(KillSession) == 120 &&
              sizeof(Holding) == 144 && sizeof(OverList) == 16 && sizeof(SuspensionRecord) == 96 &&
              sizeof(SuspensionList) == 24 && sizeof(SuspendSession) == 24 &&
              sizeof(SessionStatus) == 24 && sizeof(ShareRecord) == 80 && sizeof(ShareList) == 8);

// A time of transport::now_ms(). Without a deadline the timeouts of the socket apply to each system
// call.
constexpr int64_t kNoDeadline = -1;

// Sends or receives a whole message with an optional descriptor. Blocks until the deadline. False
// when the other side is gone or too slow, or the body is larger than `room`.
bool send_message(int fd, Kind kind, const void* body, uint32_t bytes, int attached_fd = -1,
                  int64_t deadline_ms = kNoDeadline);
bool receive_message(int fd, Header& header, void* body, uint32_t room, int* attached_fd = nullptr,
                     int64_t deadline_ms = kNoDeadline);

// Receives the message of a page, which has been sent before, and its body, without waiting.
// Returns the page, mapped for reading; null on failure.
const void* receive_page(int fd, size_t bytes, void* body = nullptr, uint32_t room = 0);

// A message with descriptors for sendmsg(), or with room for descriptors for recvmsg().
class DescriptorMessage : public msghdr {
 public:
  static constexpr size_t kMost = 4;
  DescriptorMessage(const void* bytes, size_t n, std::span<const int> attached);
  DescriptorMessage(void* bytes, size_t n, size_t room);
  DescriptorMessage(const DescriptorMessage&) = delete;
  // Those that have come, at most as many as there was room for; the others stay as they are.
  void take(int* received);

 private:
  iovec io_;
  alignas(cmsghdr) char descriptors_[CMSG_SPACE(kMost * sizeof(int))] = {};
};

// Limits the time of each call that receives or sends; 0: it is not limited.
bool set_timeouts(int fd, int timeout_ms);
bool address_of(const char* path, sockaddr_un& a);  // false if the path is too long
bool peer_of(int fd, ucred& peer);                  // the process at the other end of a Unix socket
int bind_at(const char* path, int type);            // as listen_at(), without listening
int listen_at(const char* path);                    // replaces a stale socket; -1 on failure
int connect_to(const char* path);  // -1 on failure, and when the other side accepts too slowly

}  // namespace busbar::control
