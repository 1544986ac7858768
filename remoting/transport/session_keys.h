// Keys of a session, each for one purpose, and the proof that admits a bulk connection.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::transport {

// Key of the TLS handshake of bulk connections.
constexpr char kBulkPurpose[] = "busbar session: bulk connection";
// Key of the proofs in wire::BulkRequest. The launcher keeps it; it does not decrypt anything.
constexpr char kAttachPurpose[] = "busbar session: attach";

// Derives the key for one purpose from the key of a session (HMAC-SHA-256).
Secret derive_key(const Secret& session_key, const char* purpose);

// Returns HMAC-SHA-256 of a message.
Secret authenticate(const Secret& key, const void* message, size_t n);

// Return whether two secrets are equal, in constant time.
bool equal(const Secret& a, const Secret& b);

// Writes the proof into a request whose other members are set.
void add_proof(wire::BulkRequest& request, const Secret& attach_key);
bool has_valid_proof(const wire::BulkRequest& request, const Secret& attach_key);

}  // namespace busbar::transport
