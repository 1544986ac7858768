// Stream capture: calls on captured streams become nodes of a graph.
//
// Thread safety: the mutex of the context of its streams guards a capture, except its atomic
// members and those that do not change: mode, thread and id. Functions take the locks that they
// need, except those whose caller holds Context::mutex.
#pragma once
#include <cuda.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/stream.h"

namespace softgpu {

struct EventState;

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;  // that began it
  GraphState* graph = nullptr;
  bool caller_owned = false;         // the graph is the program's own
  std::atomic<bool> invalid{false};  // a forbidden call was made
  std::atomic<bool> ended{false};    // no stream may join it any more
  unsigned long long id = 0;
  StreamRef origin;
  std::vector<StreamRef> streams;  // the origin and those that joined it
};

// Begin a capture of a stream that is not captured: into `graph`, whose nodes `tail` come before
// the captured ones, or into a new graph if that is null. The caller holds Context::mutex.
void begin_capture(const StreamRef& s, GraphState* graph, std::vector<GraphNode*> tail,
                   CUstreamCaptureMode mode);
// End a capture. Return an error if the graph is not valid: a forbidden call was made, or a forked
// stream has not joined the origin again. The caller holds Context::mutex.
CUresult end_capture(Capture& capture);
// Destroy the graph of a capture that has ended, unless it is the program's own.
void discard_graph(Capture& capture);
// End the capture that began on a stream, if there is one, without a graph. The caller holds
// Context::mutex.
void cancel_capture(const StreamRef& s);
// Append a call as a node at the end of the stream; nothing runs. The caller holds Context::mutex.
void capture_call(StreamState& s, NodeParams params, std::function<CUresult()> run);
void invalidate(Capture& capture);
// Append a node without a call at the end of the stream. Fail if the capture has ended meanwhile.
CUresult capture_node(const StreamRef& s, NodeParams params);
// Return whether calls on a stream become nodes.
bool is_captured(const StreamRef& s);
// Invalidate the capture of a stream. Return false if the stream is not captured.
bool invalidate_capture_of(const StreamRef& s);
// Return an error, and invalidate the captures, if a call that waits for or disturbs captured work
// is forbidden.
CUresult unsafe_in_capture();
// Swap the capture mode of the calling thread.
void exchange_capture_mode(CUstreamCaptureMode& mode);
// Make a stream wait for a captured event; the stream joins the capture unless that has ended.
// Return CUDA_ERROR_NOT_READY if no capture is concerned.
CUresult capture_wait(Context* c, const StreamRef& s, EventState* e);

}  // namespace softgpu
