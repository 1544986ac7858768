// Tickets: permissions to open sessions, signed by the appliance and verified without it.
//
// Thread safety: any thread. The functions keep no state.
#pragma once
#include <cstdint>
#include <string>

#include "control/messages.h"

namespace busbar::launcher {

constexpr char kTicketMagic[4] = {'B', 'B', 'T', '1'};
constexpr size_t kSignatureBytes = 64;

// Followed by `partitions` times control::Partition and the signature of everything before it.
// appliance/allocations/ticket_layouts.py is generated from it.
#pragma pack(push, 1)
struct TicketBody {
  char magic[4];
  uint32_t partitions;
  uint8_t key_id[8], allocation[16], node[16];
  int64_t issued_seconds, expires_seconds;  // clock of the appliance
  uint64_t fence_epoch, fence_counter;
  uint8_t client_key[32];  // X25519; the client proves it in the TLS handshake
};
#pragma pack(pop)
static_assert(sizeof(TicketBody) == 112);

struct Ticket {
  ~Ticket();  // overwrites the secret

  TicketBody body;
  uint8_t node_secret[32];  // of the key that signed it
  control::Partition partition[wire::kMaxDevices];
};

// Verifies an Ed25519 signature. Defined in signature.cc.
bool signed_by(const control::TicketKey& key, const uint8_t* p, size_t n, const uint8_t* signature);

// Checks layout and signature. False with a reason for the log, which the client must not see.
bool read_ticket(const uint8_t* p, size_t n, const control::TicketKey* keys, uint32_t key_count,
                 Ticket& out, std::string& reason);

}  // namespace busbar::launcher
