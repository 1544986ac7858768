// CUDA entry points: streams.
#include <algorithm>

#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static CUresult create(CUstream* out, unsigned flags, int priority) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto s = std::make_shared<StreamState>();
  s->context = c;
  s->blocking = !(flags & CU_STREAM_NON_BLOCKING);
  s->priority = std::clamp(priority, -5, 0);
  std::lock_guard lock(c->mutex);
  c->streams.push_back(s);
  *out = (CUstream)s.get();
  return CUDA_SUCCESS;
}

API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return create(out, flags, 0);
}
API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return create(out, flags, priority);
}

API CUresult cuStreamDestroy(CUstream h) {
  Context* c;
  CUresult sticky = current_context(c);
  if (!c) return sticky;
  if (!h || h == CU_STREAM_LEGACY || h == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  REQUIRE_STREAM_REF(s, h, c);
  std::lock_guard lock(c->mutex);
  cancel_capture(s);
  s->closing = true;  // its operations complete; the legacy stream still waits for them
  if (s->completed == s->enqueued) std::erase(c->streams, s);
  std::erase_if(c->streams, [&](auto& o) { return o->closing && o->completed == o->enqueued; });
  return CUDA_SUCCESS;
}

static bool is_legacy(CUstream h) {
  return h == CU_STREAM_LEGACY || (!h && !t_per_thread_default);
}

API CUresult cuStreamSynchronize(CUstream h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (is_legacy(h))  // forbidden beside captures of other contexts too
    if (CUresult r = unsafe_in_capture()) return r;
  REQUIRE_STREAM_REF(s, h, c);
  if (s->legacy) return wait_for_context(c);
  uint64_t end;
  {
    std::lock_guard lock(c->mutex);
    if (s->capture) {
      invalidate(*s->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    end = s->enqueued;
  }
  return wait_for(s, end);
}

API CUresult cuStreamQuery(CUstream h) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  std::lock_guard lock(c->mutex);
  if (s->capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (c->error) return c->error;
  return s->completed < s->enqueued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

API CUresult cuStreamGetFlags(CUstream h, unsigned* flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = s->blocking ? 0 : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetPriority(CUstream h, int* priority) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetId(CUstream h, unsigned long long* id) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = s->id;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetDevice(CUstream h, CUdevice* device) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = c->device->ordinal;
  return CUDA_SUCCESS;
}
#undef cuStreamGetCtx
API CUresult cuStreamGetCtx(CUstream h, CUcontext* out) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)c;
  return CUDA_SUCCESS;
}
