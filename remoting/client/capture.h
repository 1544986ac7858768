// Stream capture as the program sees it: modes, forks and joins by events, and the calls that are
// forbidden meanwhile. The node always captures RELAXED; what is allowed is decided here, so that a
// wrong call fails at once.
#pragma once
#include <cuda.h>

#include <memory>
#include <thread>
#include <vector>

#include "client/graph.h"

namespace busbar::client {

struct Context;
struct Event;
struct Stream;

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::vector<std::shared_ptr<Stream>> streams;  // the origin and those that joined it
  bool invalid = false;
  uint64_t id = 0;
  CUgraph given = nullptr;  // the program's own graph, if it captures into one
  std::shared_ptr<GraphModel> model;
  std::vector<CUgraphNode> tail;  // what the last question for it answered
};

// A call on a stream beside or inside a capture: refuses the legacy stream, and an invalid capture.
CUresult refuse_in_capture(Stream& s);
// A call that waits for the stream, or asks for its state: forbidden while it is captured, and ends
// the capture.
CUresult forbid_in_capture(Stream& s);
// A call that would wait for, or disturb, work that is being captured. CUDA_SUCCESS when no capture
// forbids it.
CUresult unsafe_in_capture();
// Of an event that was recorded in a capture.
CUresult forbid_captured(Event& e);

// The event's stream joins the waiting stream's capture, or the other way round. NOT_READY: no
// capture is concerned.
CUresult capture_wait(Stream& s, Event& e);
void capture_record(Stream& s, Event& e);

std::shared_ptr<Capture> capture_of(Stream& s);  // null: none

}  // namespace busbar::client
