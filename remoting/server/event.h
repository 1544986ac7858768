// Events of the program. Each record gives an event a new version (a driver event of its own), so
// that a parked wait keeps the version that it named when it was decoded.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>

#include "server/driver.h"
#include "server/shared_event.h"

namespace busbar::server {

// One version of an event.
struct DriverEvent {
  DriverEvent(Driver& driver, unsigned flags) : cu(driver) {
    error = cu.cuEventCreate(&handle, flags);
  }
  DriverEvent(const DriverEvent&) = delete;
  ~DriverEvent() {
    if (handle) cu.cuEventDestroy(handle);
  }
  Driver& cu;
  CUevent handle = nullptr;  // null when its creation failed
  CUresult error = CUDA_SUCCESS;
  bool captured = false;  // its record is a part of a capture
};

struct EventState {
  uint32_t context = 0;
  uint32_t flags = 0;
  std::shared_ptr<DriverEvent> current;
  uint32_t stream = 0;    // of the newest record
  uint64_t sequence = 0;  // of the newest record in its stream queue; 0: it was not parked
  // The newest launch of a graph that may have recorded it, in its stream queue.
  uint32_t maybe_stream = 0;
  uint64_t maybe_sequence = 0;
  std::shared_ptr<SharedEvent> shared;  // null, except for an event that sessions may share
  bool in_graph = false;  // a graph node names the event, which keeps one version from now on
};

}  // namespace busbar::server
