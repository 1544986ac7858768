// CUDA entry points: virtual memory management by the program. Physical memory lies on the node and
// is charged to the ledger there.
#include <map>

#include "checked_size.h"
#include "client/address_reservation.h"
#include "client/api/require.h"
#include "client/memory_request.h"
#include "mutex.h"

using namespace busbar;
using namespace busbar::client;

namespace {
struct Physical {
  uint64_t bytes;
  CUmemAllocationProp properties;
  int references;  // the program's handles and mappings
};
struct Mapping {
  uint64_t bytes;
  CUmemGenericAllocationHandle handle;
  CUmemAccess_flags access;
  int device;  // ordinal
};

// The mutex is held during round trips to the node.
struct VirtualMemory {
  Mutex mutex;
  std::map<uint64_t, Mapping> mappings GUARDED_BY(mutex);  // by address
  std::map<CUmemGenericAllocationHandle, Physical> physical GUARDED_BY(mutex);
};
VirtualMemory& memory() {
  static auto* m = new VirtualMemory;
  return *m;
}

Device* device_of(const CUmemLocation& where) {
  bool known = where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id >= 0 &&
               where.id < (int)session()->devices.size();
  return known ? session()->devices[(size_t)where.id] : nullptr;
}

// Return the mapping that covers an address.
std::map<uint64_t, Mapping>::iterator mapping_at(uint64_t p) REQUIRES(memory().mutex) {
  auto& m = memory().mappings;
  auto it = m.upper_bound(p);
  if (it == m.begin()) return m.end();
  --it;
  return p < it->first + it->second.bytes ? it : m.end();
}

// Drops a reference to physical memory; the last one frees it.
void release_reference(CUmemGenericAllocationHandle h, Link* link) REQUIRES(memory().mutex) {
  auto it = memory().physical.find(h);
  if (it == memory().physical.end() || --it->second.references) return;
  memory().physical.erase(it);
  session()->objects.remove(ObjectKind::memory, h);
  call_range(link, wire::Op::release_memory, 0, h, 0);
}
}  // namespace

API CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* p,
                                           CUmemAllocationGranularity_flags) {
  REQUIRE_SESSION;
  if (!out || !p) return CUDA_ERROR_INVALID_VALUE;
  *out = wire::kGranularity;  // of all GPUs since Volta; the node rejects other sizes
  return CUDA_SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr hint,
                                 unsigned long long flags) {
  REQUIRE_SESSION;
  if (!out || !bytes || bytes % wire::kGranularity || flags || (align & (align - 1)) ||
      align > 1ull << 40)
    return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  Link* link = c ? c->device->link : session()->devices.front()->link;
  if (align > wire::kGranularity) align_reservations(align);
  uint64_t at = 0;
  CUresult r = reserve_addresses(link, c ? c->id : 0, bytes, hint, at);
  if (!r) *out = at;
  return r;
}

API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  auto next = memory().mappings.lower_bound(p);
  if (next != memory().mappings.end() && next->first - p < bytes) return CUDA_ERROR_INVALID_VALUE;
  return release_addresses(p, bytes);
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                         const CUmemAllocationProp* p, unsigned long long flags) {
  REQUIRE_SESSION;
  if (!out || !p || flags || !bytes || bytes % wire::kGranularity ||
      p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  Device* d = device_of(p->location);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  Context* c = current_context();
  if (c && c->device->link != d->link) c = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  if (CUresult r = create_physical_memory(d, c, Attempt::waits, bytes, handle)) return r;
  *out = handle;
  session()->objects.add(ObjectKind::memory, handle, 0, {d->link, nullptr});
  MutexLock lock(memory().mutex);
  memory().physical[handle] = {bytes, *p, 1};
  return CUDA_SUCCESS;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  Link* link = home_of(ObjectKind::memory, h).link;
  if (!link || !memory().physical.count(h)) return CUDA_ERROR_INVALID_VALUE;
  release_reference(h, link);
  return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h,
                      unsigned long long flags) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  Link* link = home_of(ObjectKind::memory, h).link;
  AddressReservation range = find_reservation(p);
  if (!link || flags || offset || !range.link) return CUDA_ERROR_INVALID_VALUE;
  bool inside =
      p % wire::kGranularity == 0 && bytes <= range.bytes && p - range.base <= range.bytes - bytes;
  auto next = memory().mappings.lower_bound(p);
  bool free = mapping_at(p) == memory().mappings.end() &&
              (next == memory().mappings.end() || next->first - p >= bytes);
  if (!inside || !free || range.link != link || bytes != memory().physical[h].bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = call_range(link, wire::Op::map_memory, 0, p, bytes, h)) return r;
  memory().mappings[p] = {bytes, h, CU_MEM_ACCESS_FLAGS_PROT_NONE,
                          memory().physical[h].properties.location.id};
  memory().physical[h].references++;
  return CUDA_SUCCESS;
}

// Return whether mappings cover the range without a gap.
static bool mapped_range(CUdeviceptr p, size_t bytes) REQUIRES(memory().mutex) {
  if (!(CheckedSize(p) + bytes).valid()) return false;
  for (uint64_t at = p; at < p + bytes;) {
    auto it = mapping_at(at);
    if (it == memory().mappings.end()) return false;
    at = it->first + it->second.bytes;
  }
  return true;
}

// Notes the access of one device to the mappings of a range. `c` becomes their context.
static void set_local_access(CUdeviceptr p, size_t bytes, const CUmemAccessDesc& access, Device* d,
                             Context*& c) REQUIRES(memory().mutex) {
  for (uint64_t at = p; at < p + bytes;) {
    auto it = mapping_at(at);
    at = it->first + it->second.bytes;
    if (it->second.device != access.location.id) continue;
    if ((!c || c->device != d) && d->primary) c = d->primary;
    it->second.access = access.flags;
    session()->addresses.remove(it->first, Region::mapped);
    if (access.flags && c)
      session()->addresses.add({Region::mapped, it->first, it->second.bytes, 0, c, 0});
  }
}

// A mapping is known to copies and pointer queries once it is accessible.
API CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t n) {
  constexpr size_t kMaxDescriptions = 16;
  REQUIRE_SESSION;
  if (!access || !n || n > kMaxDescriptions) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  MutexLock lock(memory().mutex);
  if (!mapped_range(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; ++i) {
    Device* d = device_of(access[i].location);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult r =
            call_range(d->link, wire::Op::set_access, 0, p, bytes, d->remote, access[i].flags))
      return r;
    set_local_access(p, bytes, access[i], d, c);
  }
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* where, CUdeviceptr p) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  auto it = mapping_at(p);
  if (!flags || !where || it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = where->id == it->second.device ? it->second.access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  REQUIRE_SESSION;
  if (!bytes || !(CheckedSize(p) + bytes).valid()) return CUDA_ERROR_INVALID_VALUE;
  Region r = session()->addresses.find(p);
  if (r.context)
    if (CUresult e = synchronize(r.context)) return e;
  MutexLock lock(memory().mutex);
  uint64_t at = p;
  while (at < p + bytes) {
    auto it = memory().mappings.find(at);
    if (it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    at += it->second.bytes;
  }
  if (at != p + bytes) return CUDA_ERROR_INVALID_VALUE;
  for (at = p; at < p + bytes;) {
    auto it = memory().mappings.find(at);
    Mapping m = it->second;
    Link* link = home_of(ObjectKind::memory, m.handle).link;
    if (!link) link = session()->devices[(size_t)m.device]->link;
    if (CUresult e = call_range(link, wire::Op::unmap_memory, 0, at, m.bytes)) return e;
    memory().mappings.erase(it);
    session()->addresses.remove(at, Region::mapped);
    release_reference(m.handle, link);
    at += m.bytes;
  }
  return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* p) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  auto it = mapping_at((uint64_t)p);
  if (!out || it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second.handle;
  memory().physical[*out].references++;
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                    CUmemGenericAllocationHandle h) {
  REQUIRE_SESSION;
  MutexLock lock(memory().mutex);
  auto it = memory().physical.find(h);
  if (!out || it == memory().physical.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second.properties;
  return CUDA_SUCCESS;
}
