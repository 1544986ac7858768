#include "server/device.h"

#include <algorithm>

#include "checked_size.h"
#include "server/reply.h"
#include "wire/format.h"

namespace busbar::server {

namespace {
// Reserves an arena at one of the client's addresses and returns it, or 0. Another address would be
// useless, because both ends must agree. Tried addresses leave the list.
uint64_t reserve_arena(Driver& cu, DeviceState& d, std::vector<uint64_t>& offered, uint64_t bytes) {
  for (uint32_t round = 0; round < wire::kArenaAttempts && !offered.empty(); ++round) {
    uint64_t at = offered.front();
    offered.erase(offered.begin());
    CUdeviceptr got = 0;
    if (cu.cuMemAddressReserve(&got, bytes, wire::kGranularity, at, 0)) continue;
    if (got == at) {
      d.arenas.emplace_back(at, bytes);
      return at;
    }
    cu.cuMemAddressFree(got, bytes);
  }
  return 0;
}

// A partition grows up to the memory of its GPU.
uint64_t arena_bytes(Driver& cu, const DeviceState& d) {
  size_t of_gpu = 0;
  cu.cuDeviceTotalMem(&of_gpu, d.device);
  CheckedSize bytes =
      CheckedSize(std::max<uint64_t>(of_gpu, d.known_bytes)) * wire::kArenaMemoryMultiple;
  return std::min(bytes.rounded_up(wire::kGranularity).value(), wire::kArenaSlotBytes);
}

void append_attributes(Driver& cu, CUdevice device, std::string& out) {
  for (int a = 0; a < wire::kDeviceAttributes; ++a) {
    int value = 0;
    CUresult r = a ? cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)a, device)
                   : CUDA_ERROR_INVALID_VALUE;
    append<int32_t>(out, value);
    append<uint8_t>(out, r == CUDA_SUCCESS);
  }
}
}  // namespace

bool reserve_client_addresses(Driver& cu) {
  constexpr uint64_t kBytes = wire::kLastPinnedAddress - wire::kFirstRangeAddress;
  CUdeviceptr got = 0;
  if (cu.cuMemAddressReserve(&got, kBytes, wire::kGranularity, wire::kFirstRangeAddress, 0))
    return false;
  if (got != wire::kFirstRangeAddress) cu.cuMemAddressFree(got, kBytes);
  return got == wire::kFirstRangeAddress;
}

std::string describe_devices(Driver& cu, const Account& account, std::vector<DeviceState>& devices,
                             std::vector<uint64_t> offered) {
  std::erase_if(offered, [](uint64_t at) { return !at || at % wire::kGranularity; });
  std::string out;
  int version = 0;
  cu.cuDriverGetVersion(&version);
  append<uint32_t>(out, (uint32_t)version);
  append<uint32_t>(out, cu.software);
  append<uint32_t>(out, (uint32_t)devices.size());
  for (auto& d : devices) {
    char name[256] = {};
    CUuuid uuid{};
    cu.cuDeviceGetName(name, sizeof name, d.device);
    cu.cuDeviceGetUuid(&uuid, d.device);
    d.known_bytes = account.limit(d.partition);
    uint64_t bytes = arena_bytes(cu, d);
    uint64_t arena = reserve_arena(cu, d, offered, bytes);
    out.append(name, sizeof name);
    out.append((const char*)&uuid, sizeof uuid);
    append<uint64_t>(out, d.known_bytes);
    append<uint64_t>(out, arena);
    append<uint64_t>(out, arena ? bytes : 0);
    append_attributes(cu, d.device, out);
  }
  return out;
}

}  // namespace busbar::server
