#include "launcher/opening.h"

#include <openssl/crypto.h>

#include <cstring>

#include "transport/cleanse.h"
#include "transport/opening_key.h"

namespace busbar::launcher {

using transport::Handshake;

// Takes over the socket.
Opening::Opening(const PendingConnection& c, const Ticket& t, const control::Allocation& g)
    : fd(c.fd),
      network(c.network),
      client(c.client),
      ticket(t),
      grant(g),
      tls(transport::Tls::prepare_with_key(c.fd, transport::Role::server, key_,
                                           transport::Reading::exact)) {}

Opening::~Opening() {
  OPENSSL_cleanse(key_.data(), key_.size());
}

bool Opening::begin(const uint8_t* ticket_bytes, size_t n) {
  transport::Secret own, peer;
  transport::Cleanse cleanse(own);
  std::memcpy(own.data(), ticket.node_secret, own.size());
  OPENSSL_cleanse(ticket.node_secret, sizeof ticket.node_secret);
  std::memcpy(peer.data(), ticket.body.client_key, peer.size());
  return transport::derive_opening_key(own, peer, ticket_bytes, n, key_);
}

Handshake Opening::advance(std::string& reason) {
  if (proved_) return read_request(reason);
  Handshake state = tls.advance_with_key(reason);
  if (state == Handshake::failed) reason = "the handshake failed: " + reason;
  if (state != Handshake::complete) return state;
  OPENSSL_cleanse(key_.data(), key_.size());
  proved_ = true;
  return read_request(reason);
}

Handshake Opening::read_request(std::string& reason) {
  while (received_ < sizeof request) {
    ssize_t n = tls.read_some((uint8_t*)&request + received_, sizeof request - received_);
    if (n == 0) return Handshake::reads;
    if (n < 0) {
      reason = "the connection ended before the request";
      return Handshake::failed;
    }
    received_ += (size_t)n;
  }
  return Handshake::complete;
}

}  // namespace busbar::launcher
