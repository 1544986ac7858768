// The partitions of the session as NVML devices.
//
// Thread safety: the caller holds Library::mutex for all functions except library(), uuid_text()
// and bus_id().
#pragma once
#include <nvml.h>

#include <mutex>
#include <string>
#include <vector>

#include "client/nvml_bridge.h"

namespace busbar::nvml {

struct Device {
  int index = 0;
  client::NvmlIdentity identity{};
  wire::NvmlSample sample{};
  std::vector<wire::NvmlProcess> processes;
  double sampled_seconds = -1;  // time of `sample` on the monotonic clock; -1: never
};

struct Library {
  std::mutex mutex;
  int references = 0;  // nvmlInit calls without an nvmlShutdown
  const client::NvmlBridge* bridge = nullptr;
  std::vector<Device*> devices;  // never freed: handles point to them
};
Library& library();

// Opens the session and adds its devices to the library. Blocks while a session is opened.
nvmlReturn_t open_devices();
// Return the device of a handle, or null for an invalid handle.
Device* device_of(nvmlDevice_t handle);
// Replaces a sample older than 50 ms. Blocks for one round trip.
nvmlReturn_t refresh(Device& d);

std::string uuid_text(const Device& d);  // "GPU-" and the UUID
std::string bus_id(const Device& d);     // for example "00000000:01:00.0"

}  // namespace busbar::nvml
