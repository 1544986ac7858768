#include "softgpu/driver/stream_handle.h"

#include <thread>

#include "softgpu/driver/capture.h"
#include "softgpu/driver/context.h"

namespace softgpu {

thread_local int t_per_thread_default = 0;

CUresult stream_for(CUstream h, Context* c, StreamRef& out) {
  if (h == nullptr && t_per_thread_default) h = CU_STREAM_PER_THREAD;
  std::lock_guard lock(c->mutex);
  if (h == nullptr || h == CU_STREAM_LEGACY) {
    // It would wait for every blocking stream, captured ones included.
    for (auto& s : c->streams)
      if (s->blocking && !s->closing && s->capture) {
        invalidate(*s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    out = c->streams[0];
    return CUDA_SUCCESS;
  }
  if (h == CU_STREAM_PER_THREAD) {
    auto& own = c->per_thread[std::this_thread::get_id()];
    if (!own) {
      own = std::make_shared<StreamState>();
      own->context = c;
      c->streams.push_back(own);
    }
    out = own;
    return CUDA_SUCCESS;
  }
  for (auto& s : c->streams)
    if (s.get() == (StreamState*)h && !s->closing) {
      out = s;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_for_work(CUstream h, Context* c, StreamRef& out) {
  if (CUresult r = stream_for(h, c, out)) return r;
  std::lock_guard lock(out->context->mutex);
  return out->capture && out->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                               : CUDA_SUCCESS;
}

}  // namespace softgpu
