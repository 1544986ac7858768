// The interface by which the look-alike libnvidia-ml reads the session of the client library.
//
// It is reached through cuGetExportTable, so that no further symbol is exported.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <cuda.h>

#include "wire/nvml_sample.h"

namespace busbar::client {

constexpr uint8_t kNvmlBridgeId[16] = {'b', 'u', 's', 'b', 'a', 'r', 'N', 'v',
                                       'm', 'l', 'B', 'r', 'i', 'd', 'g', 'e'};

struct NvmlIdentity {
  char name[256];
  CUuuid uuid;
  uint32_t domain, bus, slot;  // PCI address
  uint32_t major, minor;       // compute capability
};

struct NvmlBridge {
  // Opens the session if necessary. Returns the number of devices of the allocation, which
  // CUDA_VISIBLE_DEVICES does not change, or -1 without a session. Indexes are below it.
  int (*open)();
  bool (*identity)(int device, NvmlIdentity* out);
  // Blocks for one round trip, in a forked child first for the opening of its session. `processes`
  // has room for kNvmlProcesses entries.
  bool (*sample)(int device, wire::NvmlSample* out, wire::NvmlProcess* processes);
  int (*driver_version)();  // as cuDriverGetVersion
  uint64_t (*waits)();      // number of times that a thread of this process waited for a node
};

const NvmlBridge* nvml_bridge();

}  // namespace busbar::client
