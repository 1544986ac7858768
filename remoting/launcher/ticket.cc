#include "launcher/ticket.h"

#include <openssl/evp.h>

#include <cstring>
#include <memory>

namespace busbar::launcher {

constexpr size_t kSignatureBytes = 64;

static bool signed_by(const control::TicketKey& key, const uint8_t* p, size_t n, const uint8_t* signature) {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> k(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.public_key, sizeof key.public_key), EVP_PKEY_free);
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> c(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return k && c && EVP_DigestVerifyInit(c.get(), nullptr, nullptr, nullptr, k.get()) == 1 && EVP_DigestVerify(c.get(), signature, kSignatureBytes, p, n) == 1;
}

bool read_ticket(const uint8_t* p, size_t n, const control::TicketKey* keys, uint32_t key_count, Ticket& out, std::string& why) {
  why = "the ticket is malformed";
  if (n < sizeof(TicketBody) + kSignatureBytes) return false;
  std::memcpy(&out.body, p, sizeof out.body);
  uint32_t count = out.body.partitions;
  if (std::memcmp(out.body.magic, kTicketMagic, 4) || count == 0 || count > wire::kMaxDevices) return false;
  size_t signed_bytes = sizeof(TicketBody) + count * sizeof(control::Partition);
  if (n != signed_bytes + kSignatureBytes) return false;
  std::memcpy(out.partition, p + sizeof(TicketBody), count * sizeof(control::Partition));
  why = "the ticket's key is not one of the appliance's";
  for (uint32_t i = 0; i < key_count; ++i) {
    if (std::memcmp(keys[i].id, out.body.key_id, sizeof keys[i].id)) continue;
    why = "the ticket's signature is wrong";
    return signed_by(keys[i], p, signed_bytes, p + signed_bytes);
  }
  return false;
}

}  // namespace busbar::launcher
