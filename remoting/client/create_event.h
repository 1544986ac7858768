// Creates an event with a chosen id.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "client/context.h"

namespace busbar::client {

// Sends the record without waiting. `flags` are those of cuEventCreate.
CUresult create_event(Context* c, uint32_t id, unsigned flags, CUevent* out);

}  // namespace busbar::client
