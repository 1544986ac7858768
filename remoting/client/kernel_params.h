// Checks and parameters common to kernel launches and kernel nodes of graphs.
//
// Thread safety: all functions may be called from any thread. They keep no state; nothing here
// allocates or blocks.
#pragma once
#include <cuda.h>

#include "client/device.h"
#include "client/function.h"

namespace busbar::client {

// Checks grid, block and shared memory against the limits of device and function.
bool valid_geometry(const Device* d, const Function* f, const CUlaunchConfig& c);

// Parameters as one block of bytes (`buffer`), or as one pointer for each parameter.
struct KernelParams {
  const void* buffer = nullptr;
  void** pointers = nullptr;
  uint32_t bytes = 0;  // of the whole block
};
// Checks the two forms in which a program passes parameters: `pointers` and `extra`.
CUresult resolve_params(const Function* f, void** pointers, void** extra, KernelParams& out);

// Calls put(bytes, n) for consecutive parts of the block.
template <typename Put>
void put_params(const Function* f, const KernelParams& p, Put put) {
  static const uint8_t zeros[16] = {};
  if (p.buffer) return put(p.buffer, p.bytes);
  uint32_t at = 0;
  for (size_t i = 0; i < f->layout.size(); ++i) {
    const Parameter& parameter = f->layout[i];
    while (at < parameter.offset) {
      uint32_t gap = parameter.offset - at;
      if (gap > sizeof zeros) gap = (uint32_t)sizeof zeros;
      put(zeros, gap);
      at += gap;
    }
    put(p.pointers[i], parameter.bytes);
    at += parameter.bytes;
  }
}

}  // namespace busbar::client
