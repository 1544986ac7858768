// The permission to open a session: signed by the appliance, checked here without asking it.
#pragma once
#include <cstdint>
#include <string>

#include "control/messages.h"

namespace busbar::launcher {

constexpr char kTicketMagic[4] = {'B', 'B', 'T', '1'};

#pragma pack(push, 1)
struct TicketBody {
  char magic[4];
  uint32_t partitions;
  uint8_t key_id[8], allocation[16], node[16];
  int64_t issued_seconds, expires_seconds;  // the appliance's clock
  uint64_t fence_epoch, fence_counter;
  uint8_t client_key[32];  // Ed25519; the client proves it in the TLS handshake
};  // then `partitions` × control::Partition, then 64 bytes of signature
#pragma pack(pop)
static_assert(sizeof(TicketBody) == 112);

struct Ticket {
  TicketBody body;
  control::Partition partition[wire::kMaxDevices];
};

// Layout and signature. False with a reason for the log; the client is told nothing.
constexpr size_t kSignatureBytes = 64;
bool signed_by(const control::TicketKey& key, const uint8_t* p, size_t n,
               const uint8_t* signature);  // signature.cc

bool read_ticket(const uint8_t* p, size_t n, const control::TicketKey* keys, uint32_t key_count,
                 Ticket& out, std::string& why);

}  // namespace busbar::launcher
