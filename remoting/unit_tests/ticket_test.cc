#include "launcher/ticket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "transport/cleanse.h"
#include "transport/tls.h"

namespace busbar {
namespace {

// The compiler assumes that the bytes are read here, and that others may have changed.
void use(void* bytes) {
  asm volatile("" : : "r"(bytes) : "memory");
}

bool is_zero(const uint8_t* p, size_t n) {
  return std::all_of(p, p + n, [](uint8_t byte) { return byte == 0; });
}

TEST(Ticket, SecretOfTheNodeIsOverwrittenAtItsEnd) {
  alignas(launcher::Ticket) uint8_t bytes[sizeof(launcher::Ticket)];
  auto* ticket = new (bytes) launcher::Ticket;
  std::memset(ticket->node_secret, 7, sizeof ticket->node_secret);
  use(bytes);
  const uint8_t* secret = ticket->node_secret;
  ticket->~Ticket();
  use(bytes);
  EXPECT_TRUE(is_zero(secret, sizeof ticket->node_secret));
}

TEST(Cleanse, SecretIsOverwrittenAtTheEndOfTheScope) {
  transport::Secret secret{7};
  {
    transport::Cleanse cleanse(secret);
    use(secret.data());
  }
  use(secret.data());
  EXPECT_TRUE(is_zero(secret.data(), secret.size()));
}

}  // namespace
}  // namespace busbar
