// The key with which fuzz targets sign tickets: that of the first test vector of RFC 8032. A public
// key of zeros would accept a signature of zeros.
#pragma once
#include <openssl/evp.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "launcher/ticket.h"

namespace busbar::fuzz {

inline control::TicketKey ticket_key() {
  constexpr uint8_t public_key[32] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7,
                                      0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
                                      0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25,
                                      0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
  control::TicketKey key{{1}, {}, {1}};
  std::memcpy(key.public_key, public_key, sizeof public_key);
  return key;
}

// Replaces the last 64 bytes by the signature of those before. False if there are none before.
inline bool sign(std::vector<uint8_t>& ticket) {
  constexpr uint8_t secret[32] = {0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a,
                                  0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32,
                                  0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
  static EVP_PKEY* key =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret, sizeof secret);
  size_t signature_bytes = launcher::kSignatureBytes;
  if (ticket.size() <= signature_bytes) return false;
  size_t n = ticket.size() - signature_bytes;
  EVP_MD_CTX* c = EVP_MD_CTX_new();
  if (EVP_DigestSignInit(c, nullptr, nullptr, nullptr, key) != 1 ||
      EVP_DigestSign(c, ticket.data() + n, &signature_bytes, ticket.data(), n) != 1)
    abort();
  EVP_MD_CTX_free(c);
  return true;
}

}  // namespace busbar::fuzz
