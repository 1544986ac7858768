// The 0600 file that `busbar run` keeps fresh: nodes, tickets, the key that proves them.
#pragma once
#include <string>
#include <vector>

#include "client/link.h"

namespace busbar::client {

struct TicketFile {
  std::string ca_pem;
  transport::Secret private_key{};
  std::vector<NodeTicket> nodes;
};

// Reads BUSBAR_TICKET_FILE. False with a sentence that says what to do.
bool read_ticket_file(TicketFile& out, std::string& error);

}  // namespace busbar::client
