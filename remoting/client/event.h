// A CUDA event: a position in a stream. Queries compare two numbers. Only elapsed times, and events
// that graphs or other sessions record, need the node.
//
// Thread safety: guards stand beside the members.
#pragma once
#include <cuda.h>

#include <memory>

#include "client/stream.h"
#include "mutex.h"

namespace busbar::client {

struct Event {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;  // CUevent_flags
  void* handle = nullptr;
  // Return whether other sessions may record the event and wait for it.
  bool shared() const { return flags & CU_EVENT_INTERPROCESS; }
  Mutex mutex;
  StreamRef stream GUARDED_BY(mutex);       // of the newest record; null: never recorded
  uint64_t position GUARDED_BY(mutex) = 0;  // of the newest record
  // Recorded by a graph: it may complete before the launch does.
  bool by_graph GUARDED_BY(mutex) = false;
  // The capture in which it was last recorded; guarded by the mutex of capture.cc.
  std::shared_ptr<Capture> capture;
};

}  // namespace busbar::client
