#include "launcher/first_bytes.h"

#include <cstring>

namespace busbar::launcher {

ssize_t missing_bytes(const std::vector<uint8_t>& bytes) {
  wire::Preamble head;
  if (bytes.size() < sizeof head) return (ssize_t)(sizeof head - bytes.size());
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, wire::kMagic, sizeof head.magic) ||
      head.bytes > wire::kMaxTicketBytes)
    return -1;
  return (ssize_t)(sizeof head + head.bytes - bytes.size());
}

bool is_opening(const std::vector<uint8_t>& bytes) {
  auto first = read_first_bytes(bytes);
  return first && first->purpose == wire::Purpose::open;
}

std::optional<FirstBytes> read_first_bytes(const std::vector<uint8_t>& bytes) {
  wire::Preamble head;
  std::memcpy(&head, bytes.data(), sizeof head);
  const uint8_t* body = bytes.data() + sizeof head;
  FirstBytes first{(wire::Purpose)head.purpose, body, head.bytes, {}};
  switch (first.purpose) {
    case wire::Purpose::open: return first;
    case wire::Purpose::bulk:
      if (head.bytes != sizeof first.bulk) return std::nullopt;
      std::memcpy(&first.bulk, body, sizeof first.bulk);
      return first;
  }
  return std::nullopt;
}

}  // namespace busbar::launcher
