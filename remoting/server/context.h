// A context of the program, which stands for the primary context of one device.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

namespace busbar::server {

struct ContextState {
  CUcontext handle = nullptr;
  uint32_t device = 0;               // index into the session's devices
  std::vector<CUevent> idle_events;  // untimed, for completion fences
};

}  // namespace busbar::server
