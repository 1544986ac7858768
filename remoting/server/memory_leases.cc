// Memory leases of the client.
#include <algorithm>
#include <cstring>

#include "checked_size.h"
#include "server/clearing_turn.h"
#include "server/device_scope.h"
#include "server/fresh_memory.h"
#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint64_t kMaxAllocationBytes = 1ull << 46;

bool inside_arena(const DeviceState& d, uint64_t at, uint64_t bytes) {
  return std::any_of(d.arenas.begin(), d.arenas.end(), [&](auto& a) {
    return at >= a.first && bytes <= a.second && at - a.first <= a.second - bytes;
  });
}

// Allocates memory outside of the arena. Leaves nothing behind on failure.
CUresult allocate_cleared(Session& s, const DeviceState& d, uint64_t bytes, CUdeviceptr* at) {
  DeviceScope scope(s.cu, d.device);
  if (CUresult r = scope.status()) return r;
  if (CUresult r = s.cu.cuMemAlloc(at, bytes)) return r;
  ClearingTurn turn(s, d.partition);
  CUresult r = clear_mapped(s.cu, *at, bytes);
  if (r) s.cu.cuMemFree(*at);
  return r;
}
}  // namespace

// device, 1: ask other sessions for unused memory, address inside the arena, bytes
void handlers::lease_memory(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  uint64_t at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes || bytes % wire::kGranularity ||
      !inside_arena(s.devices[device], at, bytes))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  DeviceState& d = s.devices[device];
  if (!s.charge_context(device) || !s.account.reserve(d.partition, bytes, asks))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  MemoryLease lease{bytes, device, 0, false};
  ClearingTurn turn(s, d.partition);
  DeviceScope scope(s.cu, d.device);
  CUresult r = scope.status();
  if (!r) r = map_fresh(s.cu, d.device, at, bytes, &lease.handle);
  if (r)
    s.account.release(d.partition, bytes);
  else
    s.leases[at] = lease;
  s.reply(reply, r);
}

// address of a lease inside the arena. The client returns memory when the work that uses it is
// complete. Other work may wait for the program, which may wait for this thread, so nothing waits
// for the GPU here. A client that returns memory in use gets a fault: the driver removes the
// mapping before it gives the memory to others.
void handlers::return_memory(Session& s, wire::Decoder in) {
  auto it = s.leases.find(in.get<uint64_t>());
  if (!in.ok() || it == s.leases.end() || it->second.outside_arena) return;
  DeviceScope scope(s.cu, s.devices[it->second.device].device);
  if (s.cu.cuMemUnmap(it->first, it->second.bytes)) return;
  {
    std::lock_guard lock(s.shared_mutex);
    std::erase_if(s.shared, [&](auto& entry) {
      return std::ranges::any_of(entry.second,
                                 [&](auto& lease) { return lease.handle == it->second.handle; });
    });
  }
  if (!s.cu.cuMemRelease(it->second.handle))
    s.account.release(s.devices[it->second.device].partition, it->second.bytes);
  s.leases.erase(it);
  if (s.exceeds_partition) s.sizes_changed = true;
}

// The client has returned the leases that it does not use, as Frame::memory_wanted asked.
void handlers::return_complete(Session& s, wire::Decoder) {
  s.account.confirm_return();
}

// device, 0, bytes -> address, which the driver chooses. Used when there is no arena.
void handlers::allocate(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t bytes = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() || !bytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (bytes > kMaxAllocationBytes) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  DeviceState& d = s.devices[device];
  uint64_t charged = allocation_charge(s.cu, bytes);
  if (!s.charge_context(device) || !s.account.reserve(d.partition, charged))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr at = 0;
  CUresult r = allocate_cleared(s, d, bytes, &at);
  if (r)
    s.account.release(d.partition, charged);
  else
    s.leases[at] = {charged, device, 0, true};
  s.reply(reply, r, std::string((const char*)&at, sizeof at));
}

// address of a lease outside the arena
void handlers::release(Session& s, wire::Decoder in) {
  auto it = s.leases.find(in.get<uint64_t>());
  if (!in.ok() || it == s.leases.end() || !it->second.outside_arena) return;
  DeviceScope scope(s.cu, s.devices[it->second.device].device);
  if (s.cu.cuMemFree(it->first)) return;  // as after a fault: it stays charged
  s.account.release(s.devices[it->second.device].partition, it->second.bytes);
  s.leases.erase(it);
}

// device -> limit of the partition, bytes charged to the allocation, bytes charged to this session
void handlers::memory_info(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  if (!in.ok() || device >= s.devices.size()) return s.reply(reply, CUDA_ERROR_INVALID_DEVICE);
  // Thread `code` unloads modules, whose variables the program takes for free.
  s.unloads.run_after_begun([&s, reply, p = s.devices[device].partition] {
    std::string out;
    append<uint64_t>(out, s.account.limit(p));
    append<uint64_t>(out, s.account.charged(p));
    append<uint64_t>(out, s.account.charged_here(p));
    s.reply(reply, CUDA_SUCCESS, out);
  });
}

}  // namespace busbar::server
