// Stream capture: modes, forks and joins by events, and the calls that are forbidden meanwhile.
#include <algorithm>

#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {
std::mutex g_captures_mutex;
auto* g_captures =
    new std::set<Capture*>;  // those that have begun and not ended; leaked, as all driver state
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
unsigned long long g_next_id = 1;

void forget_capture(Capture& capture) {
  for (auto& s : capture.streams) {
    s->capture = nullptr;
    s->tail.clear();
  }
  std::lock_guard lock(g_captures_mutex);
  g_captures->erase(&capture);
}

// Nodes on which nothing depends must all be where the origin stands: else a fork was not joined.
bool joined(const Capture& capture) {
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

void capture_call(StreamState& s, NodeParams params, std::function<CUresult()> run) {
  if (s.capture->invalid) return;
  s.tail = {add_node(s.capture->graph, std::move(params), std::move(run), s.tail)};
}

void invalidate(Capture& capture) {
  capture.invalid = true;
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

// The tail of a captured event becomes part of what the stream waits for; a stream outside joins
// the capture.
CUresult capture_wait(Context* c, const StreamRef& s, EventState* e) {
  std::lock_guard lock(c->mutex);
  if (!e->capture && !s->capture) return CUDA_ERROR_NOT_READY;  // no capture: an ordinary wait
  if (!e->capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (s->capture && s->capture != e->capture) {
    invalidate(*s->capture);
    invalidate(*e->capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!s->capture) {
    s->capture = e->capture;
    s->capture->streams.push_back(s);
    s->tail.clear();
  }
  for (auto* n : e->tail)
    if (std::find(s->tail.begin(), s->tail.end(), n) == s->tail.end()) s->tail.push_back(n);
  return CUDA_SUCCESS;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define STREAM(s, h, c) \
  StreamRef s;          \
  if (CUresult r = stream_for(h, c, s)) return r

API CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData*, size_t n,
                                         CUstreamCaptureMode mode) {
  CURRENT(c);
  STREAM(s, h, c);
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !dependencies) || (g && !known(g)))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->given = g != nullptr;
  capture->graph = g ? (GraphState*)g : make_graph();
  capture->origin = s;
  capture->streams = {s};
  s->capture = capture;
  s->tail.assign((GraphNode**)dependencies, (GraphNode**)dependencies + n);
  std::lock_guard all(g_captures_mutex);
  capture->id = g_next_id++;
  g_captures->insert(capture.get());
  return CUDA_SUCCESS;
}
API CUresult cuStreamBeginCapture(CUstream h, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(h, nullptr, nullptr, nullptr, 0, mode);
}

API CUresult cuStreamEndCapture(CUstream h, CUgraph* out) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::lock_guard lock(c->mutex);
  auto capture = s->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != s) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult r = capture->invalid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : joined(*capture) ? CUDA_SUCCESS
                                  : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  forget_capture(*capture);
  if (r == CUDA_SUCCESS)
    *out = (CUgraph)capture->graph;
  else if (!capture->given)
    destroy_graph(capture->graph);
  return r;
}

static CUstreamCaptureStatus status_of(const StreamState& s) {
  return !s.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
         : s.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

API CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* status) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  *status = status_of(*s);
  return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** tail, size_t* count) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  *status = status_of(*s);
  if (!s->capture) return CUDA_SUCCESS;
  if (id) *id = s->capture->id;
  if (graph) *graph = (CUgraph)s->capture->graph;
  if (tail) *tail = (const CUgraphNode*)s->tail.data();
  if (count) *count = s->tail.size();
  return CUDA_SUCCESS;
}

#undef cuStreamGetCaptureInfo
API CUresult cuStreamGetCaptureInfo_v2(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** tail, size_t* count) {
  return capture_info(h, status, id, graph, tail, count);
}
API CUresult cuStreamGetCaptureInfo_v3(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** tail,
                                       const CUgraphEdgeData** edges, size_t* count) {
  if (edges) *edges = nullptr;
  return capture_info(h, status, id, graph, tail, count);
}

API CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode* nodes,
                                               const CUgraphEdgeData*, size_t n, unsigned flags) {
  CURRENT(c);
  STREAM(s, h, c);
  if ((n && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  if (!s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) s->tail.clear();
  for (size_t i = 0; i < n; ++i) s->tail.push_back((GraphNode*)nodes[i]);
  return CUDA_SUCCESS;
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(t_mode, *mode);
  return CUDA_SUCCESS;
}
