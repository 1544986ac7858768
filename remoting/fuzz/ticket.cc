// libFuzzer target: tickets of unauthenticated clients, and grants of the agent.
#include <openssl/evp.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/grants.h"
#include "launcher/ticket.h"

using namespace busbar;
using namespace busbar::launcher;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 1) return 0;
  if (data[0] & 1) {
    Ledgers ledgers("/nonexistent");  // none can be created there, so every grant is refused
    Grants grants("/nonexistent", ledgers);
    grants.replace(data + 1, n - 1);
    return 0;
  }
  // The key pair of the first test vector of RFC 8032. A public key of zeros would accept a
  // signature of zeros.
  static const uint8_t secret[32] = {0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60,
                                     0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
                                     0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19,
                                     0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
  static const uint8_t public_key[32] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7,
                                         0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
                                         0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25,
                                         0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
  control::TicketKey keys[2] = {{{1}, {}}, {}};
  for (auto& k : keys) std::memcpy(k.public_key, public_key, sizeof public_key);
  std::vector<uint8_t> bytes(data + 1, data + n);
  bool is_signed = data[0] & 2 && bytes.size() > 64;
  if (is_signed) {
    static EVP_PKEY* key =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret, sizeof secret);
    EVP_MD_CTX* c = EVP_MD_CTX_new();
    size_t signature_bytes = 64;
    if (EVP_DigestSignInit(c, nullptr, nullptr, nullptr, key) != 1 ||
        EVP_DigestSign(c, bytes.data() + bytes.size() - 64, &signature_bytes, bytes.data(),
                       bytes.size() - 64) != 1)
      __builtin_trap();
    EVP_MD_CTX_free(c);
  }
  Ticket ticket;
  std::string reason;
  if (read_ticket(bytes.data(), bytes.size(), keys, 2, ticket, reason) && !is_signed)
    __builtin_trap();
  return 0;
}
