#include "client/nvml_bridge.h"

#include <algorithm>
#include <cstring>

#include "client/open_session.h"
#include "client/session.h"

namespace busbar::client {

namespace {
int open_devices() {
  return open_session() ? -1 : (int)session()->all_devices.size();
}

// Return a device of the allocation, whether or not CUDA shows it; null without a session. Opens
// one in a forked child, which inherits NVML as initialised as it is in its parent.
Device* device_at(int index) {
  if (!has_open_session() && open_session()) return nullptr;
  auto& devices = session()->all_devices;
  return (size_t)index < devices.size() ? devices[(size_t)index].get() : nullptr;
}

bool identity(int index, NvmlIdentity* out) {
  Device* d = device_at(index);
  if (!d) return false;
  *out = {};
  std::memcpy(out->name, d->name, sizeof out->name);
  out->uuid = d->uuid;
  out->domain = d->pci_domain;
  out->bus = (uint32_t)d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID];
  out->slot = (uint32_t)d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
  out->major = (uint32_t)d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  out->minor = (uint32_t)d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  return true;
}

bool sample(int index, wire::NvmlSample* out, wire::NvmlProcess* processes) {
  Device* d = device_at(index);
  if (!d) return false;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::nvml_sample, 0);
  e.put(id).put(d->remote);
  Reply reply = d->link->call(id, e.finish(), e.size());
  wire::Decoder in(reply.body.data(), reply.body.size());
  if (reply.status) return false;
  *out = in.get<wire::NvmlSample>();
  out->processes = std::min(out->processes, wire::kNvmlProcesses);
  for (uint32_t i = 0; i < out->processes; ++i) processes[i] = in.get<wire::NvmlProcess>();
  return in.ok();
}

int driver_version() {
  return session() ? session()->driver_version : 13000;
}
uint64_t waits() {
  uint64_t total = 0;
  if (has_open_session())
    for (auto& l : session()->links) total += l->waits();
  return total;
}
}  // namespace

const NvmlBridge* nvml_bridge() {
  static const NvmlBridge bridge{open_devices, identity, sample, driver_version, waits};
  return &bridge;
}

}  // namespace busbar::client
