// The program's own virtual memory management. Addresses are reserved on both sides, so that
// pointers inside kernel arguments mean the same; physical memory is the node's, and the ledger
// counts it there.
#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "client/call.h"

namespace busbar::client {

namespace {
#ifdef BUSBAR_SMALL_WINDOW
constexpr uint64_t kFirstAddress = 0x5000000000ull, kLastAddress = 0x7000000000ull;
#else
constexpr uint64_t kFirstAddress = 0x2b0000000000ull,
                   kLastAddress = 0x2f0000000000ull;  // above the arenas
#endif
constexpr int kRounds = 4;

struct Physical {
  uint64_t bytes;
  CUmemAllocationProp properties;
  int references;
};
struct Mapping {
  uint64_t bytes;
  CUmemGenericAllocationHandle handle;
  CUmemAccess_flags access;
  int device;
};

struct VirtualMemory {
  std::mutex mutex;
  uint64_t cursor = kFirstAddress;
  std::map<uint64_t, std::pair<uint64_t, Link*>> reserved;
  std::map<uint64_t, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
};
VirtualMemory& memory() {
  static auto* m = new VirtualMemory;
  return *m;
}

uint64_t round_up(uint64_t v) {
  return (v + wire::kGranularity - 1) & ~(wire::kGranularity - 1);
}

// Addresses that nothing of this process uses; 0 when there are none.
uint64_t take_addresses(uint64_t bytes, uint64_t wish) {
  auto free_at = [&](uint64_t at) {
    void* p = mmap((void*)at, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED && (uint64_t)p != at) {
      munmap(p, bytes);
      return false;
    }
    return p != MAP_FAILED;
  };
  if (wish && wish % wire::kGranularity == 0 && wish >= kFirstAddress &&
      wish + bytes <= kLastAddress && free_at(wish))
    return wish;
  VirtualMemory& m = memory();
  for (; m.cursor + bytes <= kLastAddress; m.cursor += round_up(bytes))
    if (free_at(m.cursor)) {
      m.cursor += bytes;
      return m.cursor - bytes;
    }
  return 0;
}

CUresult ask_range(Link* link, wire::Op op, uint32_t context, uint64_t a, uint64_t b,
                   uint64_t c = 0, uint64_t d = 0) {
  uint64_t id = link->next_id();
  wire::Encoder<> e(op, context);
  e.put(id).put(a).put(b).put(c).put(d);
  return (CUresult)link->ask(id, e.finish(), e.size()).status;
}

Device* device_of(const CUmemLocation& where) {
  bool known = where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id >= 0 &&
               where.id < (int)session()->devices.size();
  return known ? session()->devices[(size_t)where.id].get() : nullptr;
}

// The mapping that covers an address.
std::map<uint64_t, Mapping>::iterator mapping_at(uint64_t p) {
  auto& m = memory().mappings;
  auto it = m.upper_bound(p);
  if (it == m.begin()) return m.end();
  --it;
  return p < it->first + it->second.bytes ? it : m.end();
}

void drop_physical(CUmemGenericAllocationHandle h, Link* link) {
  auto it = memory().physical.find(h);
  if (it == memory().physical.end() || --it->second.references) return;
  memory().physical.erase(it);
  session()->objects.take(ObjectKind::memory, h);
  ask_range(link, wire::Op::release_memory, 0, h, 0);
}
}  // namespace
}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define READY \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED

API CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* p,
                                           CUmemAllocationGranularity_flags) {
  READY;
  if (!out || !p) return CUDA_ERROR_INVALID_VALUE;
  *out = wire::kGranularity;  // of every GPU since Volta; the node refuses what does not fit
  return CUDA_SUCCESS;
}

CUresult busbar::client::reserve_on_both_sides(Link* link, uint32_t context, uint64_t bytes,
                                               uint64_t wish, uint64_t& out) {
  std::lock_guard lock(memory().mutex);
  for (int i = 0; i < kRounds; ++i) {
    uint64_t at = take_addresses(bytes, i ? 0 : wish);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = ask_range(link, wire::Op::reserve_addresses, context, at, bytes);
    if (r == CUDA_SUCCESS) {
      memory().reserved[at] = {bytes, link};
      out = at;
      return r;
    }
    munmap((void*)at, bytes);
    if (r != CUDA_ERROR_OUT_OF_MEMORY) return r;  // taken on the node: try elsewhere
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr wish,
                                 unsigned long long flags) {
  READY;
  if (!out || !bytes || bytes % wire::kGranularity || flags || (align & (align - 1)) ||
      align > 1ull << 40)
    return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  Link* link = c ? c->device->link : session()->devices.front()->link;
  if (align > wire::kGranularity) {
    std::lock_guard lock(memory().mutex);
    memory().cursor = (memory().cursor + align - 1) & ~(align - 1);
  }
  uint64_t at = 0;
  CUresult r = reserve_on_both_sides(link, c ? c->id : 0, bytes, wish, at);
  if (!r) *out = at;
  return r;
}

API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  READY;
  std::lock_guard lock(memory().mutex);
  auto it = memory().reserved.find(p);
  if (it == memory().reserved.end() || it->second.first != bytes) return CUDA_ERROR_INVALID_VALUE;
  auto next = memory().mappings.lower_bound(p);
  if (next != memory().mappings.end() && next->first < p + bytes) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = ask_range(it->second.second, wire::Op::free_addresses, 0, p, bytes);
  munmap((void*)p, bytes);
  memory().reserved.erase(it);
  return r;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                         const CUmemAllocationProp* p, unsigned long long flags) {
  READY;
  if (!out || !p || flags || !bytes || bytes % wire::kGranularity ||
      p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  Device* d = device_of(p->location);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  Context* c = current_context();
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::create_memory, c && c->device->link == d->link ? c->id : 0);
  e.put(id).put((uint64_t)d->remote).put((uint64_t)bytes);
  Answer a = d->link->ask(id, e.finish(), e.size());
  if (a.status) return (CUresult)a.status;
  *out = wire::Decoder(a.body.data(), a.body.size()).get<uint64_t>();
  session()->objects.add(ObjectKind::memory, *out, 0, {d->link, nullptr});
  std::lock_guard lock(memory().mutex);
  memory().physical[*out] = {bytes, *p, 1};
  return CUDA_SUCCESS;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  READY;
  std::lock_guard lock(memory().mutex);
  Link* link = home_of(ObjectKind::memory, h).link;
  if (!link || !memory().physical.count(h)) return CUDA_ERROR_INVALID_VALUE;
  drop_physical(h, link);
  return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h,
                      unsigned long long flags) {
  READY;
  std::lock_guard lock(memory().mutex);
  Link* link = home_of(ObjectKind::memory, h).link;
  auto range = memory().reserved.upper_bound(p);
  if (!link || flags || offset || range == memory().reserved.begin())
    return CUDA_ERROR_INVALID_VALUE;
  --range;
  bool inside = p % wire::kGranularity == 0 && bytes <= range->second.first &&
                p - range->first <= range->second.first - bytes;
  auto next = memory().mappings.lower_bound(p);
  bool free = mapping_at(p) == memory().mappings.end() &&
              (next == memory().mappings.end() || next->first >= p + bytes);
  if (!inside || !free || range->second.second != link || bytes != memory().physical[h].bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = ask_range(link, wire::Op::map_memory, 0, p, bytes, h)) return r;
  memory().mappings[p] = {bytes, h, CU_MEM_ACCESS_FLAGS_PROT_NONE,
                          memory().physical[h].properties.location.id};
  memory().physical[h].references++;
  return CUDA_SUCCESS;
}

// Access is what makes a mapping an allocation: copies and pointer queries find it from here on.
API CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t n) {
  READY;
  if (!access || !n || n > 16) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  std::lock_guard lock(memory().mutex);
  for (uint64_t at = p; at < p + bytes;) {
    auto it = mapping_at(at);
    if (it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    at = it->first + it->second.bytes;
  }
  for (size_t i = 0; i < n; ++i) {
    Device* d = device_of(access[i].location);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult r =
            ask_range(d->link, wire::Op::set_access, 0, p, bytes, d->remote, access[i].flags))
      return r;
    for (uint64_t at = p; at < p + bytes;) {
      auto it = mapping_at(at);
      at = it->first + it->second.bytes;
      if (it->second.device != access[i].location.id) continue;
      if (!c || c->device != d) {
        for (auto& known : session()->devices)
          if (known.get() == d && known->primary) c = known->primary;
      }
      it->second.access = access[i].flags;
      session()->addresses.remove(it->first, Region::mapped);
      if (access[i].flags && c)
        session()->addresses.add({Region::mapped, it->first, it->second.bytes, 0, c, 0});
    }
  }
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* where, CUdeviceptr p) {
  READY;
  std::lock_guard lock(memory().mutex);
  auto it = mapping_at(p);
  if (!flags || !where || it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = where->id == it->second.device ? it->second.access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  READY;
  Region r = session()->addresses.find(p);
  if (r.context)
    if (CUresult e = synchronize(r.context)) return e;  // nothing may touch it any more
  std::lock_guard lock(memory().mutex);
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
    if (CUresult e = ask_range(link, wire::Op::unmap_memory, 0, at, m.bytes)) return e;
    memory().mappings.erase(it);
    session()->addresses.remove(at, Region::mapped);
    drop_physical(m.handle, link);
    at += m.bytes;
  }
  return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* p) {
  READY;
  std::lock_guard lock(memory().mutex);
  auto it = mapping_at((uint64_t)p);
  if (!out || it == memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second.handle;
  memory().physical[*out].references++;
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                    CUmemGenericAllocationHandle h) {
  READY;
  std::lock_guard lock(memory().mutex);
  auto it = memory().physical.find(h);
  if (!out || it == memory().physical.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second.properties;
  return CUDA_SUCCESS;
}
