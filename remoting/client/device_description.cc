#include "client/device_description.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "client/arena_addresses.h"
#include "client/device.h"
#include "visible_devices.h"

namespace busbar::client {

namespace {
std::unique_ptr<Heap> make_heap(Device* d, uint64_t at, uint64_t bytes) {
  auto lease = [d](uint64_t where, uint64_t n, bool asks) {
    uint64_t id = d->link->next_id();
    wire::Encoder<> e(wire::Op::lease_memory, 0);
    e.put(id).put(d->remote).put<uint32_t>(asks).put(where).put(n);
    return (CUresult)d->link->call(id, e.finish(), e.size()).status;
  };
  auto return_lease = [d](uint64_t where, uint64_t n) {
    wire::Encoder<> e(wire::Op::return_memory, 0);
    e.put(where).put(n);
    d->link->submit(e.finish(), e.size());
  };
  return std::make_unique<Heap>(at, bytes, lease, return_lease);
}

// Reads one device. Its arena is removed from `free_addresses`.
std::unique_ptr<Device> read_device(wire::Decoder& d, Link* link, uint32_t index, uint32_t domain,
                                    std::vector<uint64_t>& free_addresses) {
  auto device = std::make_unique<Device>();
  device->link = link;
  device->remote = index;
  device->pci_domain = domain;
  if (const uint8_t* name = d.raw(sizeof device->name))
    std::memcpy(device->name, name, sizeof device->name - 1);
  if (const uint8_t* uuid = d.raw(sizeof device->uuid))
    std::memcpy(&device->uuid, uuid, sizeof device->uuid);
  link->describe_partition(index, d.get<uint64_t>());
  uint64_t arena = d.get<uint64_t>(), arena_bytes = d.get<uint64_t>();
  for (int k = 0; k < wire::kDeviceAttributes; ++k) {
    device->attributes.push_back(d.get<int32_t>());
    device->known.push_back(d.get<uint8_t>() != 0);
  }
  device->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] = (int)domain;
  auto slot = std::find(free_addresses.begin(), free_addresses.end(), arena);
  if (slot == free_addresses.end() || arena_bytes > wire::kArenaSlotBytes) return device;
  free_addresses.erase(slot);
  trim_arena_addresses(arena, arena_bytes);
  device->arena = arena;
  device->arena_bytes = arena_bytes;
  device->heap = make_heap(device.get(), arena, arena_bytes);
  return device;
}
}  // namespace

CUresult read_devices(Session* s, Link* link, uint32_t domain, const std::string& description,
                      std::vector<uint64_t> free_addresses) {
  wire::Decoder d(description.data(), description.size());
  int version = (int)d.get<uint32_t>();
  d.get<uint32_t>();  // 1: software GPU
  uint32_t count = d.get<uint32_t>();
  if (count > wire::kMaxDevices) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  if (!s->driver_version || version < s->driver_version) s->driver_version = version;
  for (uint32_t i = 0; i < count; ++i)
    s->all_devices.push_back(read_device(d, link, i, domain, free_addresses));
  release_arena_addresses(free_addresses);
  return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

void release_arena(const Device& d) {
  if (d.arena_bytes) munmap((void*)d.arena, d.arena_bytes);
}

void apply_visible_devices(Session* s) {
  std::vector<DeviceUuid> uuids;
  for (auto& d : s->all_devices) uuids.push_back(std::bit_cast<DeviceUuid>(d->uuid));
  for (size_t i : visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids)) {
    s->all_devices[i]->ordinal = (int)s->devices.size();
    s->devices.push_back(s->all_devices[i].get());
  }
}

}  // namespace busbar::client
