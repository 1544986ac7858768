// Reservation of address ranges in client and session server at once, so that pointers in kernel
// arguments have the same meaning at both ends.
//
// Thread safety: all functions may be called from any thread. One mutex, held during the round trip
// to the node.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "wire/opcodes.h"

namespace busbar::client {

class Link;

struct AddressReservation {
  uint64_t base = 0, bytes = 0;
  Link* link = nullptr;  // null: none
};

// Reserves a range. Tries the address `hint` first, if it is not 0. Blocks for at least a round
// trip.
CUresult reserve_addresses(Link* link, uint32_t context, uint64_t bytes, uint64_t hint,
                           uint64_t& out);
// Aligns the addresses of later reservations; `align` is a power of two.
void align_reservations(uint64_t align);
// Releases the reservation with this base and size at both ends. Returns CUDA_ERROR_INVALID_VALUE
// if there is none.
CUresult release_addresses(uint64_t base, uint64_t bytes);
// Sends one of the requests for virtual memory, which have up to four values. Blocks for a round
// trip.
CUresult call_range(Link* link, wire::Op op, uint32_t context, uint64_t a, uint64_t b,
                    uint64_t c = 0, uint64_t d = 0);
// Return the last reservation that begins at or before an address; it may end before the address.
AddressReservation find_reservation(uint64_t address);

}  // namespace busbar::client
