// Virtual memory of the program: address ranges, physical memory and mappings. Physical memory is
// charged from its creation until it is released and no mapping is left.
#include "checked_size.h"
#include "server/device_scope.h"
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

// Clears new physical memory through a temporary mapping.
CUresult clear_physical(Session& s, CUmemGenericAllocationHandle h, uint64_t bytes,
                        CUdevice device) {
  if (s.cu.fresh_memory_is_zero) return CUDA_SUCCESS;
  CUdeviceptr at = 0;
  if (CUresult r = s.cu.cuMemAddressReserve(&at, bytes, 0, 0, 0)) return r;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult r = s.cu.cuMemMap(at, bytes, 0, h, 0);
  if (!r) {
    r = s.cu.cuMemSetAccess(at, bytes, &access, 1);
    if (!r) r = clear_mapped(s.cu, at, bytes);
    s.cu.cuMemUnmap(at, bytes);
  }
  s.cu.cuMemAddressFree(at, bytes);
  return r;
}

// True if a mapping begins inside the range.
bool holds_mapping(Session& s, uint64_t at, uint64_t bytes) {
  auto it = s.mapped.lower_bound(at);
  return it != s.mapped.end() && it->first - at < bytes;
}

// Ends the charge of physical memory that is released and unmapped.
void end_charge(Session& s, uint64_t handle) {
  auto it = s.physical.find(handle);
  if (it == s.physical.end() || !it->second.released || it->second.mappings) return;
  s.account.release(it->second.partition, it->second.bytes);
  s.physical.erase(it);
}
}  // namespace

// address, bytes. Reserves exactly that address or fails.
void handlers::reserve_addresses(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  if (!in.ok() || !bytes || bytes % wire::kGranularity || !(CheckedSize(at) + bytes).valid() ||
      s.reserved.size() >= wire::kMaxListElements)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr got = 0;
  CUresult r = s.cu.cuMemAddressReserve(&got, bytes, wire::kGranularity, at, 0);
  if (!r && got != at) {
    s.cu.cuMemAddressFree(got, bytes);
    r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!r) s.reserved[at] = bytes;
  s.reply(reply, r);
}

// address, bytes
void handlers::free_addresses(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  auto it = s.reserved.find(at);
  if (!in.ok() || it == s.reserved.end() || it->second != bytes || holds_mapping(s, at, bytes))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = s.cu.cuMemAddressFree(at, bytes);
  if (!r) s.reserved.erase(it);
  s.reply(reply, r);
}

// device, bytes -> handle
void handlers::create_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), device = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes || bytes % wire::kGranularity)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  DeviceState& d = s.devices[device];
  if (!s.charge_context((uint32_t)device) || !s.account.reserve(d.partition, bytes))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, {d.device}};
  CUmemGenericAllocationHandle h = 0;
  DeviceScope scope(s.cu, d.device);
  CUresult r = scope.status();
  if (!r) r = s.cu.cuMemCreate(&h, bytes, &p, 0);
  if (!r && (r = clear_physical(s, h, bytes, d.device))) s.cu.cuMemRelease(h);
  if (r)
    s.account.release(d.partition, bytes);
  else {
    s.objects.add(ObjectKind::memory, h);
    s.physical[h] = {bytes, d.partition, 0, false};
  }
  std::string out;
  append(out, h);
  s.reply(reply, r, out);
}

// handle
void handlers::release_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), h = in.get<uint64_t>();
  if (!in.ok() || !s.objects.contains(ObjectKind::memory, h))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = s.cu.cuMemRelease(h);
  if (!r) {
    s.objects.remove(ObjectKind::memory, h);
    s.physical[h].released = true;
    end_charge(s, h);
  }
  s.reply(reply, r);
}

// address, bytes, handle
void handlers::map_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>(),
           h = in.get<uint64_t>();
  if (!in.ok() || !inside_reserved(s, at, bytes) || !s.objects.contains(ObjectKind::memory, h))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = s.cu.cuMemMap(at, bytes, 0, h, 0);
  if (!r) {
    s.mapped[at] = {bytes, h, {}};
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
    end_charge(s, h);
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
  s.reply(reply, s.cu.cuMemSetAccess(at, bytes, &access, 1));
}

}  // namespace busbar::server
