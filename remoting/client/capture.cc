#include "client/capture.h"

#include <algorithm>
#include <set>

#include "client/call.h"

namespace busbar::client {

namespace {
std::mutex& captures_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
std::set<Capture*>& captures() {
  static auto* s = new std::set<Capture*>;
  return *s;
}  // begun and not ended
std::atomic<int> g_capturing{0};
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
uint64_t g_next_id = 1;

void join(Stream& s, const std::shared_ptr<Capture>& capture) {
  s.capture = capture;
  capture->streams.push_back(kept(&s));
  s.capturing = true;
  if (!(s.flags & CU_STREAM_NON_BLOCKING)) s.context->capturing_streams++;
}

void leave_all(Capture& capture) {
  for (auto& s : capture.streams) {
    s->capture = nullptr;
    s->capturing = false;
    if (!(s->flags & CU_STREAM_NON_BLOCKING)) s->context->capturing_streams--;
  }
  capture.streams.clear();
  captures().erase(&capture);
  g_capturing--;
}

// What is on its way must be there: nothing may be parked on the node in the midst of a capture.
CUresult settle(Stream& s) {
  return wait_for(&s, s.progress.last.load());
}
}  // namespace

std::shared_ptr<Capture> capture_of(Stream& s) {
  std::lock_guard lock(captures_mutex());
  return s.capture;
}

CUresult refuse_in_capture(Stream& s) {
  std::lock_guard lock(captures_mutex());
  if (s.legacy) {
    for (Capture* c : captures())
      for (auto& o : c->streams)
        if (o->context == s.context && !(o->flags & CU_STREAM_NON_BLOCKING)) c->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return s.capture && s.capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult forbid_in_capture(Stream& s) {
  if (s.legacy) return s.context->capturing_streams ? refuse_in_capture(s) : CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex());
  if (!s.capture) return CUDA_SUCCESS;
  s.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult forbid_captured(Event& e) {
  std::lock_guard lock(captures_mutex());
  if (!e.capture) return CUDA_SUCCESS;
  e.capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult unsafe_in_capture() {
  if (g_capturing.load(std::memory_order_relaxed) == 0 || t_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex());
  bool forbidden = false;
  for (Capture* c : captures()) {
    bool mine = c->thread == std::this_thread::get_id();
    bool both_global =
        c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!mine && !both_global)) continue;
    c->invalid = forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_wait(Stream& s, Event& e) {
  std::unique_lock lock(captures_mutex());
  if (!e.capture && !s.capture) return CUDA_ERROR_NOT_READY;
  if (!e.capture) {
    s.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (s.capture && s.capture != e.capture) {
    s.capture->invalid = e.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (s.legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (s.capture || !captures().count(e.capture.get())) return CUDA_SUCCESS;
  lock.unlock();
  if (CUresult r = settle(s)) return r;
  lock.lock();
  if (!s.capture) join(s, e.capture);
  return CUDA_SUCCESS;
}

void capture_record(Stream& s, Event& e) {
  std::lock_guard lock(captures_mutex());
  e.capture = s.capture;
}

static CUresult begin_capture(Stream& s, CUgraph given, CUstreamCaptureMode mode) {
  if (CUresult r = settle(s)) return r;
  std::lock_guard lock(captures_mutex());
  if (s.capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &s;
  capture->given = given;
  capture->model = given ? model_of(given) : std::make_shared<GraphModel>();
  capture->id = g_next_id++;
  join(s, capture);
  captures().insert(capture.get());
  g_capturing++;
  return CUDA_SUCCESS;
}

// The capture ends on both sides whatever comes out of it; only these refusals leave it as it was.
static CUresult may_end(Stream& s, std::shared_ptr<Capture>& capture) {
  std::lock_guard lock(captures_mutex());
  capture = s.capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &s) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  return CUDA_SUCCESS;
}

static CUstreamCaptureStatus status_of(const Stream& s) {
  return !s.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
         : s.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define STREAM(s, h, c)        \
  Stream* s = stream_of(h, c); \
  if (!s) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, size_t n,
                                         CUstreamCaptureMode mode) {
  Call call;
  CURRENT(c);
  STREAM(s, h, c);
  if (s->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !dependencies) || n > kMostElements)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = call.begin(h)) return r;
  if (g && !call.known(ObjectKind::graph, (uint64_t)g)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = begin_capture(*s, g, mode)) return r;
  wire::Encoder<kLongRequest> e(wire::Op::begin_capture, c->id, s->id);
  e.put(call.reply_id()).put((uint64_t)g).put((uint32_t)n).put((uint32_t)(edges != nullptr));
  if (n) e.raw(dependencies, (uint32_t)(n * sizeof *dependencies));
  if (n && edges) e.raw(edges, (uint32_t)(n * sizeof *edges));
  call.answer(e.finish(), e.size());
  if (call.status()) {
    std::lock_guard lock(captures_mutex());
    auto capture = s->capture;
    if (capture) leave_all(*capture);
  }
  return call.status();
}
API CUresult cuStreamBeginCapture_v2(CUstream h, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(h, nullptr, nullptr, nullptr, 0, mode);
}
#undef cuStreamBeginCapture
API CUresult cuStreamBeginCapture(CUstream h) {
  return cuStreamBeginCapture_v2(h, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

API CUresult cuStreamEndCapture(CUstream h, CUgraph* out) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::shared_ptr<Capture> capture;
  if (CUresult r = may_end(*s, capture)) return r;
  bool invalid = capture->invalid;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<> e(wire::Op::end_capture, c->id, s->id);
  e.put(call.reply_id()).put<uint32_t>(invalid).put((uint32_t)(capture->given != nullptr));
  wire::Decoder answer = call.answer(e.finish(), e.size());
  {
    std::lock_guard lock(captures_mutex());
    leave_all(*capture);
  }
  if (invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (call.status()) return call.status();
  *out = answer.get<CUgraph>();
  call.remember(ObjectKind::graph, (uint64_t)*out);
  if (!capture->given) set_model(*out, capture->model);
  return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* status) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (s->legacy)
    if (CUresult r = enter_stream(*s)) return r;
  std::lock_guard lock(captures_mutex());
  *status = status_of(*s);
  return CUDA_SUCCESS;
}

// The status is known here; the graph and its newest nodes are the node's to tell.
static CUresult capture_info(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** tail, size_t* count) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (s->legacy)
    if (CUresult r = enter_stream(*s)) return r;
  auto capture = capture_of(*s);
  {
    std::lock_guard lock(captures_mutex());
    *status = status_of(*s);
  }
  if (!capture) return CUDA_SUCCESS;
  if (id) *id = capture->id;
  if (!graph && !tail && !count) return CUDA_SUCCESS;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<> e(wire::Op::capture_info, c->id, s->id);
  e.put(call.reply_id());
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (call.status()) return call.status();
  auto g = answer.get<CUgraph>();
  uint64_t n = answer.get<uint64_t>();
  if (n > answer.left() / sizeof(CUgraphNode)) return CUDA_ERROR_UNKNOWN;
  call.remember(ObjectKind::graph, (uint64_t)g);
  if (!capture->given) set_model(g, capture->model);  // nodes may be added to it now
  std::lock_guard lock(captures_mutex());
  capture->tail.resize(n);
  for (auto& node : capture->tail) {
    node = answer.get<CUgraphNode>();
    call.remember(ObjectKind::node, (uint64_t)node, (uint64_t)g);
  }
  if (graph) *graph = g;
  if (tail) *tail = capture->tail.data();
  if (count) *count = n;
  return CUDA_SUCCESS;
}

#undef cuStreamGetCaptureInfo
API CUresult cuStreamGetCaptureInfo(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(h, status, id, nullptr, nullptr, nullptr);
}
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

API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream h, CUgraphNode* nodes,
                                                  const CUgraphEdgeData*, size_t n,
                                                  unsigned flags) {
  CURRENT(c);
  STREAM(s, h, c);
  if ((n && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || n > kMostElements)
    return CUDA_ERROR_INVALID_VALUE;
  if (!capture_of(*s)) return CUDA_ERROR_ILLEGAL_STATE;
  Call call;
  if (CUresult r = call.begin(h)) return r;
  wire::Encoder<kLongRequest> e(wire::Op::update_capture, c->id, s->id);
  e.put(call.reply_id()).put(flags).put((uint32_t)n);
  if (n) e.raw(nodes, (uint32_t)(n * sizeof *nodes));
  call.answer(e.finish(), e.size());
  return call.status();
}
#undef cuStreamUpdateCaptureDependencies
API CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode* nodes, size_t n,
                                               unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(h, nodes, nullptr, n, flags);
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(t_mode, *mode);
  return CUDA_SUCCESS;
}
