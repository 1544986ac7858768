// What launches and kernel nodes share: the checks, and the parameters as one block of bytes.
#pragma once
#include <cstring>

#include "client/call.h"

namespace busbar::client {

bool valid_geometry(const Device* d, const Function* f, const CUlaunchConfig& c);
// The program's own block of parameters (the `extra` form).
CUresult packed_buffer(void** extra, const void*& buffer, size_t& bytes);
// From pointers to a block, at the places that the node told us. `put(bytes, n)` appends.
template <typename Put>
void pack(const Function* f, void** params, Put put) {
  static const uint8_t zeros[16] = {};
  uint32_t at = 0;
  for (size_t i = 0; i < f->layout.size(); ++i) {
    const Parameter& p = f->layout[i];
    while (at < p.offset) {
      uint32_t gap = p.offset - at < sizeof zeros ? p.offset - at : (uint32_t)sizeof zeros;
      put(zeros, gap);
      at += gap;
    }
    put(params[i], p.bytes);
    at += p.bytes;
  }
}

}  // namespace busbar::client
