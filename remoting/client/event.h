// A CUDA event: a position in a stream. Queries compare two numbers. Only elapsed times, and events
// that graphs or other sessions record, need the node.
//
// Thread safety: guards stand beside the members.
#pragma once
#include <cuda.h>

#include <memory>
#include <mutex>

#include "client/stream.h"

namespace busbar::client {

struct Event {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;  // CUevent_flags
  void* handle = nullptr;
  // Return whether other sessions may record the event and wait for it.
  bool shared() const { return flags & CU_EVENT_INTERPROCESS; }
  std::mutex mutex;       // guards the following three members
  StreamRef stream;       // of the newest record; null: never recorded
  uint64_t position = 0;  // of the newest record
  bool by_graph = false;  // recorded by a graph: it may complete before the launch does
  // The capture in which it was last recorded; guarded by the mutex of capture.cc.
  std::shared_ptr<Capture> capture;
};

}  // namespace busbar::client
