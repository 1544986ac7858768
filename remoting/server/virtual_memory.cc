// Virtual memory of the program: address ranges, physical memory and mappings. Physical memory is
// charged from its creation until it is released and no mapping is left.
#include "checked_size.h"
#include "server/clearing_turn.h"
#include "server/device_scope.h"
#include "server/fresh_memory.h"
#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
// True if the range lies inside an address range of the program.
bool inside_reserved(Session& s, uint64_t at, uint64_t bytes) {
  auto it = s.reserved.upper_bound(at);
  if (it == s.reserved.begin()) return false;
  --it;
  return bytes <= it->second && at - it->first <= it->second - bytes;
}

bool has_reserved(Session& s, uint64_t at, uint64_t bytes) {
  return s.has_client_addresses && at >= wire::kFirstRangeAddress &&
         (CheckedSize(at) + bytes).within(wire::kLastPinnedAddress);
}

bool meets_reserved(Session& s, uint64_t at, uint64_t bytes) {
  auto next = s.reserved.lower_bound(at);
  if (next != s.reserved.end() && next->first - at < bytes) return true;
  return next != s.reserved.begin() && at - std::prev(next)->first < std::prev(next)->second;
}

CUresult reserve_exactly(Session& s, uint64_t at, uint64_t bytes) {
  if (meets_reserved(s, at, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (has_reserved(s, at, bytes)) return CUDA_SUCCESS;
  CUdeviceptr got = 0;
  CUresult r = s.cu.cuMemAddressReserve(&got, bytes, wire::kGranularity, at, 0);
  if (r || got == at) return r;
  s.cu.cuMemAddressFree(got, bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Clears new physical memory through a temporary mapping.
CUresult clear_physical(Session& s, CUmemGenericAllocationHandle h, uint64_t bytes,
                        CUdevice device) {
  if (s.cu.fresh_memory_is_zero) return CUDA_SUCCESS;
  TemporaryMapping mapping(s.cu, device, h, bytes);
  return mapping.status() ? mapping.status() : clear_mapped(s.cu, mapping.address(), bytes);
}

// True if a mapping begins inside the range.
bool holds_mapping(Session& s, uint64_t at, uint64_t bytes) {
  auto it = s.mapped.lower_bound(at);
  return it != s.mapped.end() && it->first - at < bytes;
}

// Ends physical memory that is released and unmapped. It stays charged if the driver keeps it.
CUresult end_unused(Session& s, uint64_t handle) {
  auto it = s.physical.find(handle);
  if (it == s.physical.end() || !it->second.released || it->second.mappings) return CUDA_SUCCESS;
  if (CUresult r = s.cu.cuMemRelease(it->second.handle)) return r;
  s.account.release(s.devices[it->second.device].partition, it->second.bytes);
  s.physical.erase(it);
  return CUDA_SUCCESS;
}

// The client knows memory by the handle that it had first. After a suspension the driver may give
// out the same handle again.
uint64_t unused_handle(const Session& s, CUmemGenericAllocationHandle h) {
  while (s.physical.count(h)) ++h;
  return h;
}
}  // namespace

// address, bytes. Reserves exactly that address or fails.
void handlers::reserve_addresses(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  if (!in.ok() || !bytes || bytes % wire::kGranularity || !(CheckedSize(at) + bytes).valid() ||
      s.reserved.size() >= wire::kMaxListElements)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = reserve_exactly(s, at, bytes);
  if (!r) s.reserved[at] = bytes;
  s.reply(reply, r);
}

// address, bytes
void handlers::free_addresses(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  auto it = s.reserved.find(at);
  if (!in.ok() || it == s.reserved.end() || it->second != bytes || holds_mapping(s, at, bytes))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = has_reserved(s, at, bytes) ? CUDA_SUCCESS : s.cu.cuMemAddressFree(at, bytes);
  if (!r) s.reserved.erase(it);
  s.reply(reply, r);
}

// device, 1: ask other sessions for unused memory, bytes -> handle
void handlers::create_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  uint64_t bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes || bytes % wire::kGranularity)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  DeviceState& d = s.devices[device];
  if (!s.charge_context(device) || !s.account.reserve(d.partition, bytes, asks))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUmemGenericAllocationHandle h = 0;
  uint64_t known = 0;
  ClearingTurn turn(s, d.partition);
  DeviceScope scope(s.cu, d.device);
  CUresult r = scope.status();
  if (!r) r = create_private(s.cu, d.device, bytes, &h);
  if (!r && (r = clear_physical(s, h, bytes, d.device))) s.cu.cuMemRelease(h);
  if (r)
    s.account.release(d.partition, bytes);
  else {
    known = unused_handle(s, h);
    s.objects.add(ObjectKind::memory, known);
    s.physical[known] = {bytes, device, 0, false, h};
  }
  std::string out;
  append(out, known);
  s.reply(reply, r, out);
}

// handle
void handlers::release_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), h = in.get<uint64_t>();
  if (!in.ok() || !s.objects.contains(ObjectKind::memory, h))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.physical[h].released = true;
  CUresult r = end_unused(s, h);
  if (r)
    s.physical[h].released = false;
  else
    s.objects.remove(ObjectKind::memory, h);
  s.reply(reply, r);
}

// address, bytes, handle
void handlers::map_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>(),
           h = in.get<uint64_t>();
  if (!in.ok() || !inside_reserved(s, at, bytes) || !s.objects.contains(ObjectKind::memory, h))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = s.cu.cuMemMap(at, bytes, 0, s.physical[h].handle, 0);
  if (!r) {
    s.mapped[at] = {bytes, h, {}, {}};
    s.physical[h].mappings++;
  }
  s.reply(reply, r);
}

// address, bytes. The client has waited for all work; a hostile one may not have, so the server
// synchronises as well.
void handlers::unmap_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  auto it = s.mapped.find(at);
  if (!in.ok() || it == s.mapped.end() || !it->second.handle || it->second.bytes != bytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.cu.cuCtxSynchronize();
  CUresult r = s.cu.cuMemUnmap(at, bytes);
  if (!r) {
    uint64_t h = it->second.handle;
    s.mapped.erase(it);
    s.physical[h].mappings--;
    end_unused(s, h);
  }
  s.reply(reply, r);
}

// address, bytes, device, flags
void handlers::set_access(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>(),
           device = in.get<uint64_t>(), flags = in.get<uint64_t>();
  bool known = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
               flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!in.ok() || !inside_reserved(s, at, bytes) || device >= s.devices.size() || !known)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {s.devices[device].device}},
                         (CUmemAccess_flags)flags};
  CUresult r = s.cu.cuMemSetAccess(at, bytes, &access, 1);
  for (auto it = s.mapped.lower_bound(at); !r && it != s.mapped.end() && it->first - at < bytes;
       ++it)
    it->second.access[(uint32_t)device] = access.flags;
  s.reply(reply, r);
}

}  // namespace busbar::server
