#include "client/placed_memory.h"

#include "checked_size.h"
#include "client/address_reservation.h"
#include "client/context.h"
#include "client/memory_request.h"
#include "client/session.h"

namespace busbar::client {

namespace {
CUresult map(Context* c, const PlacedMemory& m) {
  Link* link = c->device->link;
  if (CUresult r = call_range(link, wire::Op::map_memory, c->id, m.base, m.bytes, m.handle))
    return r;
  CUresult r = CUDA_SUCCESS;
  for (auto& d : session()->devices)
    if (!r && d->link == link)
      r = call_range(link, wire::Op::set_access, c->id, m.base, m.bytes, d->remote,
                     CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (r) call_range(link, wire::Op::unmap_memory, c->id, m.base, m.bytes);
  return r;
}
}  // namespace

CUresult place_memory(Context* c, uint64_t address, uint64_t bytes, Attempt attempt,
                      PlacedMemory& out, bool& free) {
  CheckedSize end = (CheckedSize(address) + bytes).rounded_up(wire::kGranularity);
  free = false;
  if (!end.valid()) return CUDA_ERROR_INVALID_VALUE;
  PlacedMemory m;
  m.base = address - address % wire::kGranularity;
  m.bytes = end.value() - m.base;
  Link* link = c->device->link;
  if (CUresult r = call_range(link, wire::Op::reserve_addresses, c->id, m.base, m.bytes)) return r;
  free = true;
  CUresult r = create_physical_memory(c->device, c, attempt, m.bytes, m.handle);
  if (!r && (r = map(c, m))) call_range(link, wire::Op::release_memory, c->id, m.handle, 0);
  if (r)
    call_range(link, wire::Op::free_addresses, c->id, m.base, m.bytes);
  else
    out = m;
  return r;
}

void free_placed_memory(Context* c, const PlacedMemory& m) {
  Link* link = c->device->link;
  call_range(link, wire::Op::unmap_memory, c->id, m.base, m.bytes);
  call_range(link, wire::Op::release_memory, c->id, m.handle, 0);
  call_range(link, wire::Op::free_addresses, c->id, m.base, m.bytes);
}

}  // namespace busbar::client
