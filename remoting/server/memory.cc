// Leases and what memory is left.
#include <algorithm>
#include <cstring>

#include "server/session.h"

namespace busbar::server {

namespace {
CUmemAllocationProp properties(CUdevice device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  p.requestedHandleTypes =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // another session of the allocation may want it
  return p;
}

bool inside_arena(const DeviceState& d, uint64_t at, uint64_t bytes) {
  return std::any_of(d.arenas.begin(), d.arenas.end(), [&](auto& a) {
    return at >= a.first && bytes <= a.second && at - a.first <= a.second - bytes;
  });
}

// Physical memory at an address the client chose. Undone completely when a step fails.
CUresult back(Session& s, const DeviceState& d, uint64_t at, uint64_t bytes,
              CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp p = properties(d.device);
  CUresult made = s.cu.cuMemCreate(handle, bytes, &p, 0);
  if (made == CUDA_ERROR_NOT_SUPPORTED ||
      made == CUDA_ERROR_INVALID_VALUE) {  // a driver that shares nothing
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    made = s.cu.cuMemCreate(handle, bytes, &p, 0);
  }
  if (made) return made;
  CUmemAccessDesc access{p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult r = s.cu.cuMemMap(at, bytes, 0, *handle, 0);
  if (r) {
    s.cu.cuMemRelease(*handle);
    return r;
  }
  r = s.cu.cuMemSetAccess(at, bytes, &access, 1);
  if (!r && !s.cu.fresh_memory_is_zero) {  // another tenant may have held it
    CUstream own;
    r = s.cu.cuStreamCreateWithPriority(&own, CU_STREAM_NON_BLOCKING, 0);
    if (!r) {
      r = s.cu.cuMemsetD8Async(at, 0, bytes, own);
      if (!r) r = s.cu.cuStreamSynchronize(own);
      s.cu.cuStreamDestroy(own);
    }
  }
  if (r) {
    s.cu.cuMemUnmap(at, bytes);
    s.cu.cuMemRelease(*handle);
  }
  return r;
}
}  // namespace

void lease_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes || bytes % wire::kGranularity ||
      !inside_arena(s.devices[device], at, bytes))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  DeviceState& d = s.devices[device];
  if (!s.ledger.reserve(d.partition, bytes)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  Lease lease{bytes, device, 0, false};
  CUresult r = back(s, d, at, bytes, &lease.handle);
  if (r)
    s.ledger.give_back(d.partition, bytes);
  else
    s.leases[at] = lease;
  s.reply(reply, r);
}

void return_memory(Session& s, wire::Decoder in) {
  auto it = s.leases.find(in.get<uint64_t>());
  if (!in.ok() || it == s.leases.end() || it->second.plain) return;
  s.cu.cuCtxSynchronize();  // the client returns memory when its work is done; this is a second
                            // lock on that door
  s.cu.cuMemUnmap(it->first, it->second.bytes);
  {
    std::lock_guard lock(s.shared_mutex);
    std::erase_if(s.shared, [&](auto& e) { return e.second == it->second.handle; });
  }
  s.cu.cuMemRelease(it->second.handle);
  s.ledger.give_back(s.devices[it->second.device].partition, it->second.bytes);
  s.leases.erase(it);
}

// Without an arena: the driver chooses the address.
void allocate(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes || bytes > 1ull << 46)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  uint32_t partition = s.devices[device].partition;
  uint64_t charged = (bytes + 511) & ~511ull;
  if (!s.ledger.reserve(partition, charged)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr at = 0;
  CUresult r = s.cu.cuMemAlloc(&at, bytes);
  if (!r && !s.cu.fresh_memory_is_zero) {
    r = s.cu.cuMemsetD8Async(at, 0, bytes, CU_STREAM_PER_THREAD);
    if (!r) r = s.cu.cuStreamSynchronize(CU_STREAM_PER_THREAD);
  }
  if (r)
    s.ledger.give_back(partition, charged);
  else
    s.leases[at] = {charged, device, 0, true};
  s.reply(reply, r, std::string((const char*)&at, sizeof at));
}

void release(Session& s, wire::Decoder in) {
  auto it = s.leases.find(in.get<uint64_t>());
  if (!in.ok() || it == s.leases.end() || !it->second.plain) return;
  s.cu.cuMemFree(it->first);
  s.ledger.give_back(s.devices[it->second.device].partition, it->second.bytes);
  s.leases.erase(it);
}

// What the whole allocation has leased of this partition, and this session's part of it.
void memory_info(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  if (!in.ok() || device >= s.devices.size()) return s.reply(reply, CUDA_ERROR_INVALID_DEVICE);
  uint32_t p = s.devices[device].partition;
  std::string out;
  append<uint64_t>(out, s.ledger.limit(p));
  append<uint64_t>(out, s.ledger.leased(p));
  append<uint64_t>(out, s.ledger.leased_here(p));
  s.reply(reply, CUDA_SUCCESS, out);
}

}  // namespace busbar::server
