// CUDA entry points: contexts and the stack of contexts of each thread.
#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static CUresult create(CUcontext* out, unsigned flags, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c = create_context(d, flags, false);
  if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
  context_stack().push_back(c);
  *out = (CUcontext)c;
  return CUDA_SUCCESS;
}

#undef cuCtxCreate
API CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice dev) {
  return create(out, flags, dev);
}
API CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int n, unsigned flags,
                            CUdevice dev) {
  return n ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, dev);
}
API CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* p, unsigned flags, CUdevice dev) {
  return p && p->numExecAffinityParams ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, dev);
}

API CUresult cuCtxDestroy(CUcontext ctx) {
  REQUIRE_DRIVER();
  auto* c = (Context*)ctx;
  if (!ctx || !is_live(c) || c->primary || c->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_context(c);
  auto& s = context_stack();
  if (!s.empty() && s.back() == c) s.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  ++c->attached;
  *out = (CUcontext)c;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDetach(CUcontext ctx) {
  REQUIRE_DRIVER();
  auto* c = (Context*)ctx;
  if (!ctx || !is_live(c) || c->destroyed || c != current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->primary) return cuDevicePrimaryCtxRelease(c->device->ordinal);
  return --c->attached > 0 ? CUDA_SUCCESS : cuCtxDestroy(ctx);
}

API CUresult cuCtxSetCurrent(CUcontext ctx) {
  REQUIRE_DRIVER();
  auto& s = context_stack();
  if (ctx && !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!s.empty()) s.pop_back();
  if (ctx) s.push_back((Context*)ctx);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext* out) {
  REQUIRE_DRIVER();
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)current();
  return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent(CUcontext ctx) {
  REQUIRE_DRIVER();
  if (!ctx || !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back((Context*)ctx);
  return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent(CUcontext* out) {
  REQUIRE_DRIVER();
  auto& s = context_stack();
  if (s.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = (CUcontext)s.back();
  s.pop_back();
  return CUDA_SUCCESS;
}

#undef cuCtxGetDevice
API CUresult cuCtxGetDevice(CUdevice* dev) {
  REQUIRE_DRIVER();
  Context* c = current();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!dev) return CUDA_ERROR_INVALID_VALUE;
  *dev = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice_v2(CUdevice* dev, CUcontext ctx) {
  REQUIRE_DRIVER();
  Context* c = ctx ? (Context*)ctx : current();
  if (!c || !is_usable((CUcontext)c)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!dev) return CUDA_ERROR_INVALID_VALUE;
  *dev = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetFlags(unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  c->flags = flags;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetFlags(unsigned* flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = c->flags;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext ctx, unsigned long long* id) {
  Context* c = ctx ? (Context*)ctx : current();
  if (!c || !id) return CUDA_ERROR_INVALID_VALUE;
  if (!is_usable((CUcontext)c)) return CUDA_ERROR_INVALID_CONTEXT;
  *id = c->id;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned* version) {
  if (ctx && !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}
#undef cuCtxSynchronize
API CUresult cuCtxSynchronize(void) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  return wait_for_context(c);
}
API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!is_usable(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!is_usable(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}
