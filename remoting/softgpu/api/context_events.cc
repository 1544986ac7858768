// CUDA entry points: events for all work of a context.
#include <algorithm>
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static CUresult context_or_current(CUcontext h, Context*& c) {
  REQUIRE_DRIVER();
  c = h ? (Context*)h : current();
  return c && is_usable((CUcontext)c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

API CUresult cuCtxSynchronize_v2(CUcontext h) {
  Context* c;
  if (CUresult r = context_or_current(h, c)) return r;
  if (CUresult r = unsafe_in_capture()) return r;
  return wait_for_context(c);
}

// Records the work that all streams of a context hold now. Waits for it first.
API CUresult cuCtxRecordEvent(CUcontext h, CUevent event) {
  Context* c;
  if (CUresult r = context_or_current(h, c)) return r;
  {
    std::lock_guard lock(c->mutex);
    auto captured = [](const StreamRef& s) {
      return s->capture != nullptr;
    };
    if (std::any_of(c->streams.begin(), c->streams.end(), captured))
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (CUresult r = wait_for_context(c)) return r;
  context_stack().push_back(c);
  CUresult r = cuEventRecord(event, CU_STREAM_LEGACY);
  context_stack().pop_back();
  return r;
}
API CUresult cuCtxWaitEvent(CUcontext h, CUevent event) {
  Context* c;
  if (CUresult r = context_or_current(h, c)) return r;
  return cuEventSynchronize(event);  // orders the event before all later work
}
