// The data of a record: inline, in a chunk of shared memory, or in a bulk transfer.
//
// Thread safety: executor thread only.
#pragma once
#include <cstdint>
#include <vector>

#include "server/session.h"
#include "wire/decode.h"

namespace busbar::server {

// Returns the chunk of shared memory that `transfer` names; null if it names none.
const uint8_t* shared_chunk(Session& s, uint64_t transfer, uint64_t bytes);

// Copies the data of a record to `out` and frees its chunk or transfer. `bulk_bytes` is set to the
// bytes that came over the bulk connection, for credit. False if the record is malformed.
bool take_payload_bytes(Session& s, wire::Decoder& in, uint64_t transfer, uint64_t bytes,
                        std::vector<uint8_t>& out, uint64_t& bulk_bytes);

}  // namespace busbar::server
