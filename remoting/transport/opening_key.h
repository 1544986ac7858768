// The key of the first handshake of a session, between client and launcher. It never travels: each
// end derives it from its own X25519 key, the public key of the other end, and the ticket.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include "transport/tls.h"

namespace busbar::transport {

// False if the key of the other end is invalid.
bool derive_opening_key(const Secret& private_key, const Secret& peer_public_key,
                        const void* ticket, size_t ticket_bytes, Secret& out);

}  // namespace busbar::transport
