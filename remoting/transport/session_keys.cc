#include "transport/session_keys.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <cstddef>
#include <cstring>

namespace busbar::transport {

Secret authenticate(const Secret& key, const void* message, size_t n) {
  Secret out;
  unsigned bytes = out.size();
  HMAC(EVP_sha256(), key.data(), (int)key.size(), (const unsigned char*)message, n, out.data(),
       &bytes);
  return out;
}

Secret derive_key(const Secret& session_key, const char* purpose) {
  return authenticate(session_key, purpose, std::strlen(purpose));
}

bool equal(const Secret& a, const Secret& b) {
  return !CRYPTO_memcmp(a.data(), b.data(), a.size());
}

void add_proof(wire::BulkRequest& request, const Secret& attach_key) {
  Secret proof = authenticate(attach_key, &request, offsetof(wire::BulkRequest, proof));
  std::memcpy(request.proof, proof.data(), proof.size());
}

bool has_valid_proof(const wire::BulkRequest& request, const Secret& attach_key) {
  Secret given;
  std::memcpy(given.data(), request.proof, given.size());
  return equal(given, authenticate(attach_key, &request, offsetof(wire::BulkRequest, proof)));
}

}  // namespace busbar::transport
