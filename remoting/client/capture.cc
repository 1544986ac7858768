#include "client/capture.h"

#include <set>

#include "client/context.h"
#include "client/event.h"
#include "mutex.h"

namespace busbar::client {

namespace {
Mutex& captures_mutex() {
  static auto* m = new Mutex;
  return *m;
}
// Captures that have begun and not ended.
std::set<Capture*>& captures() REQUIRES(captures_mutex()) {
  static auto* s = new std::set<Capture*>;
  return *s;
}
std::atomic<int> g_capturing{0};  // size of captures()
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
uint64_t g_next_id GUARDED_BY(captures_mutex()) = 1;

void join(Stream& s, const std::shared_ptr<Capture>& capture) REQUIRES(captures_mutex()) {
  s.capture = capture;
  capture->streams.push_back(retain(&s));
  s.capturing = true;
  if (!(s.flags & CU_STREAM_NON_BLOCKING)) s.context->capturing_streams++;
}

void release(Stream& s) REQUIRES(captures_mutex()) {
  s.capture = nullptr;
  s.capturing = false;
  if (!(s.flags & CU_STREAM_NON_BLOCKING)) s.context->capturing_streams--;
}

void remove_all_streams(Capture& capture) REQUIRES(captures_mutex()) {
  for (auto& s : capture.streams) release(*s);
  capture.streams.clear();
  captures().erase(&capture);
  g_capturing--;
}
}  // namespace

bool has_captures() {
  return g_capturing.load(std::memory_order_relaxed) > 0;
}

std::shared_ptr<Capture> capture_of(Stream& s) {
  MutexLock lock(captures_mutex());
  return s.capture;
}

CUresult refuse_in_capture(Stream& s) {
  MutexLock lock(captures_mutex());
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
  MutexLock lock(captures_mutex());
  if (!s.capture) return CUDA_SUCCESS;
  s.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult forbid_captured(Event& e) {
  MutexLock lock(captures_mutex());
  if (!e.capture) return CUDA_SUCCESS;
  e.capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult unsafe_in_capture() {
  if (!has_captures() || t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  MutexLock lock(captures_mutex());
  bool forbidden = false;
  for (Capture* c : captures()) {
    bool own = c->thread == std::this_thread::get_id();
    bool both_global =
        c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!own && !both_global)) continue;
    c->invalid = forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

// Work must be complete before its stream is captured: the node must not park records of a captured
// stream.
CUresult join_capture(Stream& s, Event& e) {
  MutexLock lock(captures_mutex());
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
  if (CUresult r = wait_for_submitted(&s)) return r;
  lock.lock();
  if (!s.capture) join(s, e.capture);
  return CUDA_SUCCESS;
}

void record_captured_event(Stream& s, Event& e) {
  MutexLock lock(captures_mutex());
  e.capture = s.capture;
}

CUresult begin_capture(Stream& s, CUgraph given, CUstreamCaptureMode mode) {
  if (CUresult r = wait_for_submitted(&s)) return r;
  MutexLock lock(captures_mutex());
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

void cancel_capture(Stream& s) {
  MutexLock lock(captures_mutex());
  auto capture = s.capture;
  if (capture) remove_all_streams(*capture);
}

void leave_capture(Stream& s) {
  MutexLock lock(captures_mutex());
  auto capture = s.capture;
  if (!capture) return;
  if (capture->origin == &s) return remove_all_streams(*capture);
  release(s);
  std::erase_if(capture->streams, [&](const StreamRef& o) { return o.get() == &s; });
}

CUresult check_capture_end(Stream& s, std::shared_ptr<Capture>& capture) {
  MutexLock lock(captures_mutex());
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

void end_capture(Capture& capture) {
  MutexLock lock(captures_mutex());
  remove_all_streams(capture);
}

CUstreamCaptureStatus capture_status(Stream& s) {
  MutexLock lock(captures_mutex());
  return !s.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
         : s.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

const CUgraphNode* set_capture_tail(Capture& capture, std::vector<CUgraphNode> nodes,
                                    const CUgraphEdgeData*& edges) {
  MutexLock lock(captures_mutex());
  capture.tail = std::move(nodes);
  capture.edges.resize(capture.tail.size());
  edges = capture.edges.data();
  return capture.tail.data();
}

void exchange_capture_mode(CUstreamCaptureMode& mode) {
  std::swap(t_mode, mode);
}

}  // namespace busbar::client
