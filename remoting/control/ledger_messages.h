// Messages between launcher and session server about device memory, and the page that the launcher
// writes for the sessions of an allocation. ADR 58.
//
// A session has one request unanswered at a time, on a SOCK_SEQPACKET connection that the launcher
// gives it. A request without an answer is sent again to the next launcher with the same sequence
// number, and applied once.
//
// Thread safety: constant layouts; the page is read by any thread of any process.
#pragma once
#include <atomic>
#include <cstdint>

#include "wire/format.h"

namespace busbar::control {

constexpr uint32_t kLedgerSessions = 256;    // of one allocation
constexpr uint32_t kRefusedCallBytes = 256;  // names of a session's unsupported calls

enum class LedgerOp : uint32_t {
  reserve = 1,
  release = 2,
  refused_call = 3,
  open_context = 4,  // the launcher knows the bytes; granted once, until the session ends
  // Suspension of the session, ADR 84.
  suspended = 5,  // its memory is saved and released; not granted: no launcher has asked for that
  resume = 6,     // as reserve, but not answered before the memory is free
  resumed = 7,    // its memory is as it was
  kept = 8,       // the suspension was abandoned; `name` has the reason
  // Unused memory of other sessions, ADR 5. They are asked also when open_context finds no room.
  reclaim = 9,    // as reserve; without room, answered when the other sessions have been asked
  returned = 10,  // the session was asked, and has released what it does not use
};

struct LedgerRequest {
  uint64_t sequence;  // 1 for the first request of a session, then one more for each
  uint32_t op;        // LedgerOp
  uint32_t partition;
  uint64_t bytes;
  char name[wire::kMaxCallNameBytes];  // of an unsupported call; filled up with zeros
};
struct LedgerAnswer {
  uint64_t sequence;
  uint32_t granted, reserved;
};
static_assert(sizeof(LedgerRequest) == 88 && sizeof(LedgerAnswer) == 16);

// The first message on the connection: the page's descriptor and the entry of this session.
struct LedgerPlace {
  uint32_t entry, reserved;
};

// Only the launcher can write it. Values may be read while they change: each is valid by itself.
struct LedgerPage {
  // Bytes that programs are offered: the partition without one context.
  std::atomic<uint64_t> limit_bytes[wire::kMaxDevices];
  std::atomic<uint64_t> further_context_bytes[wire::kMaxDevices];  // of the second one and later
  struct Entry {
    std::atomic<uint32_t> server_pid;  // 0: the entry is free
    std::atomic<uint32_t> client_pid;  // of the program, on its own machine
    std::atomic<uint64_t> charged_bytes[wire::kMaxDevices];
  } sessions[kLedgerSessions];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace busbar::control
