// The first bytes of a connection, before TLS: a preamble, then a ticket or the request for a bulk
// connection. They come from strangers.
//
// Thread safety: any thread. The functions keep no state.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/format.h"

namespace busbar::launcher {

struct FirstBytes {
  wire::Purpose purpose;
  // Purpose::open: the bytes of the ticket, which are not checked yet.
  const uint8_t* ticket;
  size_t ticket_bytes;
  wire::BulkRequest bulk;  // Purpose::bulk
};

// Returns the number of bytes that are still missing; 0 if the first bytes are complete, -1 if they
// are invalid.
ssize_t missing_bytes(const std::vector<uint8_t>& bytes);

// Returns whether complete first bytes have a ticket; TLS follows.
bool is_opening(const std::vector<uint8_t>& bytes);

// Reads complete first bytes; the result refers to them. Nothing if the purpose is unknown, or the
// size is not that of the purpose.
std::optional<FirstBytes> read_first_bytes(const std::vector<uint8_t>& bytes);

}  // namespace busbar::launcher
