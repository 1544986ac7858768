// libFuzzer target: tickets of unauthenticated clients, and grants of the agent.
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/ticket_key.h"
#include "launcher/grants.h"
#include "launcher/ticket.h"

using namespace busbar;
using namespace busbar::launcher;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 1) return 0;
  if (data[0] & 1) {
    Ledgers ledgers("/nonexistent");  // none can be created there, so every grant is refused
    static Arbiters arbiters;         // which therefore get none
    Grants grants("/nonexistent", ledgers, arbiters);
    grants.replace(data + 1, n - 1);
    return 0;
  }
  std::vector<uint8_t> bytes(data + 1, data + n);
  bool is_signed = data[0] & 2 && fuzz::sign(bytes);
  control::TicketKey keys[2] = {fuzz::ticket_key(), fuzz::ticket_key()};
  std::memset(keys[1].id, 0, sizeof keys[1].id);
  Ticket ticket;
  std::string reason;
  if (read_ticket(bytes.data(), bytes.size(), keys, 2, ticket, reason) && !is_signed)
    __builtin_trap();
  return 0;
}
