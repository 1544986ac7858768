// The ticket file, which `busbar run` writes with mode 0600 and keeps current: nodes, their tickets
// and the private key that the tickets name. It is a file in memory, which the program inherits as
// a descriptor; the path names that descriptor of `busbar run`.
//
// Thread safety: any thread.
#pragma once
#include <string>
#include <vector>

#include "transport/tls.h"

namespace busbar::client {

struct Endpoint {
  std::string address;
  int port = 0;
};

struct NodeTicket {
  std::string node_name, ticket;
  transport::Secret node_key{};     // X25519, public
  std::vector<Endpoint> endpoints;  // in the order in which to try them
};

struct TicketFile {
  transport::Secret private_key{};  // X25519
  std::vector<NodeTicket> nodes;
};

// Reads the file named by BUSBAR_TICKET_FILE, or else the descriptor of its number that this
// process or an ancestor has. Returns false with a message that states the remedy.
bool read_ticket_file(TicketFile& out, std::string& error);

}  // namespace busbar::client
