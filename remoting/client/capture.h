// Stream capture: modes, forks and joins by events, and the calls that are forbidden meanwhile.
//
// The node always captures in RELAXED mode. The client decides what is allowed, so that an invalid
// call fails at once.
//
// Thread safety: all functions may be called from any thread. One mutex guards all captures; only
// the registry of graph models is locked under it. begin_capture() and join_capture() wait for the
// stream's work without it.
#pragma once
#include <cuda.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "client/graph_model.h"

namespace busbar::client {

struct Event;
struct Stream;

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;  // that began the capture
  Stream* origin = nullptr;
  std::vector<std::shared_ptr<Stream>> streams;  // the origin and the streams that have joined
  std::atomic<bool> invalid{false};              // read without the mutex when the capture ends
  uint64_t id = 0;
  CUgraph given = nullptr;  // graph of the program, with cuStreamBeginCaptureToGraph
  std::shared_ptr<GraphModel> model;
  std::vector<CUgraphNode> tail;       // newest nodes, as returned by the last query
  std::vector<CUgraphEdgeData> edges;  // from them: of the default kind
};

// Return whether a capture has begun and not ended, in any thread.
bool has_captures();

// ---- checks before a call ----
// A call on a stream: refuses the legacy stream beside a capture of its context, which becomes
// invalid, and streams of an invalid capture.
CUresult refuse_in_capture(Stream& s);
// A call that waits for a stream or queries it: invalidates the capture of that stream.
CUresult forbid_in_capture(Stream& s);
// A call that waits for captured work or disturbs it: invalidates the captures that forbid it.
CUresult unsafe_in_capture();
// A query of an event: invalidates the capture in which it was last recorded.
CUresult forbid_captured(Event& e);

// ---- events ----
// A stream waits for an event: joins the event's capture. CUDA_ERROR_NOT_READY: neither is
// captured.
CUresult join_capture(Stream& s, Event& e);
void record_captured_event(Stream& s, Event& e);

// ---- begin and end ----
CUresult begin_capture(Stream& s, CUgraph given, CUstreamCaptureMode mode);
// Ends the capture of a stream, if there is one.
void cancel_capture(Stream& s);
// A stream ends: so does the capture that began on it; that of another stream goes on without it.
void leave_capture(Stream& s);
// Return whether the calling thread may end the capture of a stream. A failure leaves the capture.
CUresult check_capture_end(Stream& s, std::shared_ptr<Capture>& capture);
void end_capture(Capture& capture);

std::shared_ptr<Capture> capture_of(Stream& s);  // null: none
CUstreamCaptureStatus capture_status(Stream& s);
// Stores the newest nodes. `edges` gets an element for each. Both arrays are valid until the next
// call for the capture.
const CUgraphNode* set_capture_tail(Capture& capture, std::vector<CUgraphNode> nodes,
                                    const CUgraphEdgeData*& edges);
// Exchanges the capture mode of the calling thread.
void exchange_capture_mode(CUstreamCaptureMode& mode);

}  // namespace busbar::client
