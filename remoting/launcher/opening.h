// A connection whose ticket is valid, until the client has proved its key and sent its request.
//
// Thread safety: one thread at a time. No member blocks.
#pragma once
#include <string>

#include "launcher/grants.h"
#include "launcher/pending_connections.h"
#include "transport/tls.h"

namespace busbar::launcher {

struct Opening {
  Opening(const PendingConnection& connection, const Ticket& t, const control::Allocation& g);
  Opening(const Opening&) = delete;
  ~Opening();

  // Prepares the handshake, which succeeds only with a client that holds the key of its ticket.
  // False if that key is invalid.
  bool begin(const uint8_t* ticket_bytes, size_t n);
  // Continues with what has arrived. `complete` means that `request` is.
  transport::Handshake advance(std::string& reason);

  int fd;  // owned by `tls`
  std::string network, client;
  Ticket ticket;
  control::Allocation grant;
  transport::Tls tls;
  wire::OpenRequest request{};

 private:
  transport::Handshake read_request(std::string& reason);
  transport::Secret key_{};
  bool proved_ = false;
  size_t received_ = 0;  // bytes of `request`
};

}  // namespace busbar::launcher
