// CUDA entry points: contexts and the context stack.
#include <climits>

#include "client/api/require.h"
#include "client/call.h"
#include "client/capture.h"
#include "client/destroy_context.h"
#include "client/host_mirror_count.h"
#include "client/mapped.h"
#include "client/memory_request.h"

using namespace busbar;
using namespace busbar::client;

// Waits for all work. Afterwards the program may read mapped memory and sees the kernels' output.
static CUresult synchronize_for_program(Context* c) {
  CUresult r = synchronize(c);
  if (!r && has_host_mirrors()) r = fetch_mapped(c);
  return r ? r : flush_kernel_output(c);
}

// Return the context of a handle; null means the current one.
static Context* context_or_current(CUcontext h) {
  return h ? session()->contexts.get(h) : current_context();
}

static CUresult create(CUcontext* out, unsigned flags, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c;
  if (CUresult r = create_context(d, flags, c)) return r;
  context_stack().push_back(c);
  *out = (CUcontext)c->handle;
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

API CUresult cuCtxDestroy(CUcontext h) {
  REQUIRE_SESSION;
  Context* c = session()->contexts.get(h);
  if (!c || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_context(c);
  session()->contexts.remove(h);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == c) stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(d->mutex);
  Context* c = primary_context(d);
  if (c->destroyed)
    if (CUresult r = activate_context(c)) return r;
  d->primary_references++;
  *out = (CUcontext)c->handle;
  return CUDA_SUCCESS;
}

// Waits for the work of the primary context if it has at most so many references, before its end.
// The device's lock is not held, because the work may wait for another thread that needs it.
static void drain_primary(Device* d, int references) {
  MutexLock lock(d->mutex);
  Context* c = d->primary_references <= references ? d->primary.load() : nullptr;
  lock.unlock();
  if (c && !c->destroyed) synchronize(c);
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  drain_primary(d, 1);
  MutexLock lock(d->mutex);
  if (d->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--d->primary_references == 0) destroy_context(d->primary);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  drain_primary(d, INT_MAX);
  MutexLock lock(d->mutex);
  if (Context* c = d->primary; c && !c->destroyed) destroy_context(c);
  d->primary_references = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
  REQUIRE_DEVICE(d, dev);
  d->primary_flags = flags;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags, int* active) {
  REQUIRE_DEVICE(d, dev);
  MutexLock lock(d->mutex);
  if (flags) *flags = d->primary_flags;
  Context* c = d->primary;
  if (active) *active = c && !c->destroyed;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext h) {
  REQUIRE_SESSION;
  Context* c = h ? session()->contexts.get(h) : nullptr;
  if (h && !c) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (c) stack.push_back(c);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext* out) {
  REQUIRE_SESSION;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  *out = c ? (CUcontext)c->handle : nullptr;
  return CUDA_SUCCESS;
}
API CUresult cuCtxPushCurrent(CUcontext h) {
  REQUIRE_SESSION;
  Context* c = session()->contexts.get(h);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(c);
  return CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent(CUcontext* out) {
  REQUIRE_SESSION;
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = (CUcontext)stack.back()->handle;
  stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice* out) {
  REQUIRE_SESSION;
  Context* c = current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetFlags(unsigned* flags) {
  REQUIRE_CONTEXT(c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = c->flags;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext h, unsigned long long* id) {
  REQUIRE_SESSION;
  Context* c = context_or_current(h);
  if (h && !c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!c || !id) return CUDA_ERROR_INVALID_VALUE;
  *id = c->id;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetApiVersion(CUcontext h, unsigned* version) {
  REQUIRE_SESSION;
  if (h && !session()->contexts.get(h)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

// The session server charges the memory that a limit stands for.
API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  return request_memory(call.context()->device, call.context(), Attempt::waits, [&](bool asks) {
    wire::Encoder<> e(wire::Op::set_limit, call.context_id());
    e.put(call.reply_id()).put((uint32_t)limit).put<uint32_t>(asks).put((uint64_t)value);
    call.send_and_wait(e.finish(), e.size());
    return call.status();
  });
}

#undef cuCtxSynchronize
API CUresult cuCtxSynchronize(void) {
  REQUIRE_CONTEXT(c);
  if (CUresult e = unsafe_in_capture()) return e;
  return synchronize_for_program(c);
}

#undef cuCtxGetDevice
API CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext h) {
  REQUIRE_SESSION;
  Context* c = context_or_current(h);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize_v2(CUcontext h) {
  REQUIRE_SESSION;
  Context* c = context_or_current(h);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult r = c->device->link->error()) return r;
  if (CUresult r = unsafe_in_capture()) return r;
  return synchronize_for_program(c);
}
API CUresult cuCtxSetFlags(unsigned flags) {
  REQUIRE_CONTEXT(c);
  c->flags = flags;
  return CUDA_SUCCESS;
}

// Records the work that all streams of a context hold now. Waits for it first.
API CUresult cuCtxRecordEvent(CUcontext h, CUevent event) {
  REQUIRE_SESSION;
  Context* c = context_or_current(h);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->capturing_streams) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (CUresult r = synchronize(c)) return r;
  context_stack().push_back(c);
  CUresult r = cuEventRecord(event, CU_STREAM_LEGACY);
  context_stack().pop_back();
  return r;
}
API CUresult cuCtxWaitEvent(CUcontext h, CUevent event) {
  REQUIRE_SESSION;
  if (h && !session()->contexts.get(h)) return CUDA_ERROR_INVALID_CONTEXT;
  return cuEventSynchronize(event);  // orders the event before all later work
}

// Add and remove references; the last one destroys the context.
API CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  REQUIRE_CONTEXT(c);
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  ++c->attached;
  *out = (CUcontext)c->handle;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDetach(CUcontext h) {
  REQUIRE_SESSION;
  Context* c = session()->contexts.get(h);
  if (!c || c->destroyed || c != current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->primary) return cuDevicePrimaryCtxRelease(c->device->ordinal);
  return --c->attached > 0 ? CUDA_SUCCESS : cuCtxDestroy(h);
}
