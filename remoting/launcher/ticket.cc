#include "launcher/ticket.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

namespace busbar::launcher {

Ticket::~Ticket() {
  OPENSSL_cleanse(node_secret, sizeof node_secret);
}

bool read_ticket(const uint8_t* p, size_t n, const control::TicketKey* keys, uint32_t key_count,
                 Ticket& out, std::string& reason) {
  reason = "the ticket is malformed";
  if (n < sizeof(TicketBody) + kSignatureBytes) return false;
  std::memcpy(&out.body, p, sizeof out.body);
  uint32_t count = out.body.partitions;
  if (std::memcmp(out.body.magic, kTicketMagic, 4) || count == 0 || count > wire::kMaxDevices)
    return false;
  size_t signed_bytes = sizeof(TicketBody) + count * sizeof(control::Partition);
  if (n != signed_bytes + kSignatureBytes) return false;
  std::memcpy(out.partition, p + sizeof(TicketBody), count * sizeof(control::Partition));
  reason = "the ticket's key is unknown";
  for (uint32_t i = 0; i < key_count; ++i) {
    if (std::memcmp(keys[i].id, out.body.key_id, sizeof keys[i].id)) continue;
    reason = "the appliance has sent no secret with the ticket's key";
    if (std::ranges::none_of(keys[i].node_secret, [](uint8_t byte) { return byte; })) return false;
    reason = "the ticket's signature is wrong";
    std::memcpy(out.node_secret, keys[i].node_secret, sizeof out.node_secret);
    return signed_by(keys[i], p, signed_bytes, p + signed_bytes);
  }
  return false;
}

}  // namespace busbar::launcher
