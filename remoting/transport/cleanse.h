// Overwrites a secret at the end of a scope, so that it does not stay in memory.
//
// Thread safety: the owner of the secret serializes.
#pragma once
#include <openssl/crypto.h>

#include <type_traits>

namespace busbar::transport {

template <typename T>
class Cleanse {
  static_assert(std::is_trivially_destructible_v<T>, "its bytes must be its whole state");

 public:
  explicit Cleanse(T& secret) : secret_(secret) {}
  Cleanse(const Cleanse&) = delete;
  ~Cleanse() { OPENSSL_cleanse(&secret_, sizeof secret_); }

 private:
  T& secret_;
};

}  // namespace busbar::transport
