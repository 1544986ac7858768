#include "transport/opening_key.h"

#include <openssl/evp.h>

#include <memory>

#include "transport/cleanse.h"
#include "transport/session_keys.h"

namespace busbar::transport {

namespace {
constexpr char kOpeningPurpose[] = "busbar ticket: open a session";
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)>;
}  // namespace

// OpenSSL refuses a public key with which the result would not depend on the private key.
bool derive_opening_key(const Secret& private_key, const Secret& peer_public_key,
                        const void* ticket, size_t ticket_bytes, Secret& out) {
  Key own(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, private_key.data(),
                                       private_key.size()),
          EVP_PKEY_free);
  Key peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, peer_public_key.data(),
                                       peer_public_key.size()),
           EVP_PKEY_free);
  if (!own || !peer) return false;
  KeyContext c(EVP_PKEY_CTX_new(own.get(), nullptr), EVP_PKEY_CTX_free);
  Secret shared, opening;
  Cleanse cleanse_shared(shared), cleanse_opening(opening);
  size_t n = shared.size();
  if (!c || EVP_PKEY_derive_init(c.get()) != 1 ||
      EVP_PKEY_derive_set_peer(c.get(), peer.get()) != 1 ||
      EVP_PKEY_derive(c.get(), shared.data(), &n) != 1 || n != shared.size())
    return false;
  opening = derive_key(shared, kOpeningPurpose);
  out = authenticate(opening, ticket, ticket_bytes);
  return true;
}

}  // namespace busbar::transport
