// What our libnvidia-ml asks our libcuda: both look at one session. Found through cuGetExportTable,
// so that nothing more is exported.
#pragma once
#include <cuda.h>

#include "wire/nvml_sample.h"

namespace busbar::client {

constexpr uint8_t kNvmlDoor[16] = {'b', 'u', 's', 'b', 'a', 'r', ' ', 'n',
                                   'v', 'm', 'l', ' ', 'd', 'o', 'o', 'r'};

struct NvmlIdentity {
  char name[256];
  CUuuid uuid;
  uint32_t domain, bus, slot, major, minor;
};

struct NvmlDoor {
  int (*open)();  // devices of the session, opened if need be; -1: there is none
  bool (*identity)(int device, NvmlIdentity* out);
  // Blocks for one round trip. `processes` has room for kNvmlProcesses.
  bool (*sample)(int device, wire::NvmlSample* out, wire::NvmlProcess* processes);
  int (*driver_version)();  // as cuDriverGetVersion says
  uint64_t (*waits)();      // how often this process stood still for a node
};

const NvmlDoor* nvml_door();

}  // namespace busbar::client
