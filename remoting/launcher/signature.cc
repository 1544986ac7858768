// Verification of the appliance's Ed25519 signatures.
#include <openssl/evp.h>

#include <memory>

#include "launcher/ticket.h"

namespace busbar::launcher {

bool signed_by(const control::TicketKey& key, const uint8_t* p, size_t n,
               const uint8_t* signature) {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> k(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.public_key, sizeof key.public_key),
      EVP_PKEY_free);
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> c(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return k && c && EVP_DigestVerifyInit(c.get(), nullptr, nullptr, nullptr, k.get()) == 1 &&
         EVP_DigestVerify(c.get(), signature, kSignatureBytes, p, n) == 1;
}

}  // namespace busbar::launcher
