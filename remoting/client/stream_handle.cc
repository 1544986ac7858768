#include "client/stream_handle.h"

#include <unordered_map>

#include "client/context.h"
#include "client/session.h"
#include "export.h"

namespace busbar::client {

thread_local int t_per_thread_default = 0;

// The per-thread default stream of a context is an ordinary blocking stream.
static Stream* per_thread_stream(Context* c) {
  static thread_local auto* own = new std::unordered_map<Context*, CUstream>;
  CUstream& handle = (*own)[c];
  Stream* s = session()->streams.get(handle);
  if (!s) {
    cuCtxPushCurrent((CUcontext)c->handle);
    if (cuStreamCreateWithPriority(&handle, 0, 0) == CUDA_SUCCESS)
      s = session()->streams.get(handle);
    cuCtxPopCurrent(nullptr);
  }
  return s;
}

Stream* find_stream(CUstream h, Context* c) {
  if (h == nullptr && t_per_thread_default > 0) h = CU_STREAM_PER_THREAD;
  if (h == nullptr || h == CU_STREAM_LEGACY) return &c->legacy;
  if (h != CU_STREAM_PER_THREAD) return session()->streams.get(h);
  return per_thread_stream(c);
}

}  // namespace busbar::client

// Called by the generated per-thread forms around the ordinary function.
API void busbar_per_thread_default(int on) {
  busbar::client::t_per_thread_default += on ? 1 : -1;
}
