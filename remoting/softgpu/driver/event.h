// Events: positions in streams that the host and other streams wait for.
//
// Thread safety: the mutex of its context guards an event, except members that do not change:
// context, timed and shared.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "softgpu/driver/stream.h"

namespace softgpu {

class SharedEvent;

struct EventState {
  Context* context = nullptr;
  bool timed = true, recorded = false;
  std::shared_ptr<SharedEvent> shared;  // null, except for an event that processes share
  StreamRef stream;
  uint64_t position = 0;
  std::shared_ptr<Capture> capture;  // recorded on a stream under capture
  std::vector<GraphNode*> tail;
  std::shared_ptr<uint64_t> nanoseconds;  // written when the stream reaches the record
};

}  // namespace softgpu
