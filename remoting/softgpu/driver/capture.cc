#include "softgpu/driver/capture.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "softgpu/driver/context.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {
std::mutex g_captures_mutex;
auto* g_captures = new std::set<Capture*>;  // in progress; never destroyed, as all driver state
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
unsigned long long g_next_id = 1;

// Return whether all forks were joined: every node without dependents is in the origin's tail.
bool all_joined(const Capture& capture) {
  std::set<const GraphNode*> needed;
  for (auto& n : capture.graph->nodes)
    for (auto* d : n->dependencies) needed.insert(d);
  auto& tail = capture.origin->tail;
  auto reached = [&](GraphNode* n) {
    return needed.count(n) || std::find(tail.begin(), tail.end(), n) != tail.end();
  };
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](auto& s) {
    return s == capture.origin || std::all_of(s->tail.begin(), s->tail.end(), reached);
  });
}
}  // namespace

void begin_capture(const StreamRef& s, GraphState* graph, std::vector<GraphNode*> tail,
                   CUstreamCaptureMode mode) {
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->caller_owned = graph != nullptr;
  capture->graph = graph ? graph : make_graph();
  ++capture->graph->captures;
  capture->origin = s;
  capture->streams = {s};
  s->capture = capture;
  s->tail = std::move(tail);
  std::lock_guard all(g_captures_mutex);
  capture->id = g_next_id++;
  g_captures->insert(capture.get());
}

CUresult end_capture(Capture& capture) {
  CUresult r = capture.invalid       ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : all_joined(capture) ? CUDA_SUCCESS
                                     : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  for (auto& s : capture.streams) {
    s->capture = nullptr;
    s->tail.clear();
  }
  capture.ended = true;
  --capture.graph->captures;
  std::lock_guard lock(g_captures_mutex);
  g_captures->erase(&capture);
  return r;
}

void discard_graph(Capture& capture) {
  if (!capture.caller_owned) destroy_graph(capture.graph);
}

void cancel_capture(const StreamRef& s) {
  auto capture = s->capture;
  if (!capture || capture->origin != s) return;
  end_capture(*capture);
  discard_graph(*capture);
}

void capture_call(StreamState& s, NodeParams params, std::function<CUresult()> run) {
  if (s.capture->invalid) return;
  s.tail = {add_node(s.capture->graph, std::move(params), std::move(run), s.tail)};
}

CUresult capture_node(const StreamRef& s, NodeParams params) {
  std::lock_guard lock(s->context->mutex);
  if (!s->capture || s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture_call(*s, std::move(params), nullptr);
  return CUDA_SUCCESS;
}

void invalidate(Capture& capture) {
  capture.invalid = true;
}

bool is_captured(const StreamRef& s) {
  std::lock_guard lock(s->context->mutex);
  return s->capture != nullptr;
}

bool invalidate_capture_of(const StreamRef& s) {
  std::lock_guard lock(s->context->mutex);
  if (s->capture) invalidate(*s->capture);
  return s->capture != nullptr;
}

void exchange_capture_mode(CUstreamCaptureMode& mode) {
  std::swap(t_mode, mode);
}

CUresult unsafe_in_capture() {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(g_captures_mutex);
  bool forbidden = false;
  for (Capture* c : *g_captures) {
    bool mine = c->thread == std::this_thread::get_id();
    if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        (!mine &&
         (c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL || t_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)))
      continue;
    invalidate(*c);
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

// The tail of the event is added to the stream's dependencies; a stream outside joins the capture.
CUresult capture_wait(Context* c, const StreamRef& s, EventState* e) {
  std::shared_ptr<Capture> capture;  // of the event
  std::vector<GraphNode*> tail;
  {
    std::lock_guard lock(e->context->mutex);
    capture = e->capture;
    tail = e->tail;
  }
  std::lock_guard lock(c->mutex);
  if (!capture && !s->capture) return CUDA_ERROR_NOT_READY;  // no capture: an ordinary wait
  if (!capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (s->capture && s->capture != capture) {
    invalidate(*s->capture);
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (capture->ended) return CUDA_SUCCESS;
  if (!s->capture) {
    s->capture = capture;
    s->capture->streams.push_back(s);
    s->tail.clear();
  }
  for (auto* n : tail)
    if (std::find(s->tail.begin(), s->tail.end(), n) == s->tail.end()) s->tail.push_back(n);
  return CUDA_SUCCESS;
}

}  // namespace softgpu
