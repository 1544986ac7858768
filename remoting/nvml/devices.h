// The partitions as NVML devices: who they are, and their newest sample.
#pragma once
#include <nvml.h>

#include <mutex>
#include <string>
#include <vector>

#include "client/nvml_door.h"

namespace busbar::nvml {

struct Device {
  int index = 0;
  client::NvmlIdentity identity{};
  wire::NvmlSample sample{};
  std::vector<wire::NvmlProcess> processes;
  double sampled_seconds = -1;  // on the monotonic clock
};

struct Library {
  std::mutex mutex;
  int references = 0;
  const client::NvmlDoor* door = nullptr;
  std::vector<Device*> devices;  // kept for good: handles are pointers to them
};
Library& library();

nvmlReturn_t open_devices();             // nvmlInit; call with the lock
Device* device_of(nvmlDevice_t handle);  // call with the lock
// A sample not older than 50 ms. Call with the lock; blocks for a round trip.
nvmlReturn_t refresh(Device& d);
std::string uuid_text(const Device& d);
std::string bus_id(const Device& d);

}  // namespace busbar::nvml
