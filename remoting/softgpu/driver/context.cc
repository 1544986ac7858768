// Contexts and the stack of each thread.
#include <algorithm>

#include "softgpu/driver/array.h"
#include "softgpu/driver/graph.h"

namespace softgpu {

std::vector<Context*>& context_stack() {
  static thread_local auto* stack =
      new std::vector<Context*>;  // leaked: used after thread-locals die
  return *stack;
}

Context* current() {
  auto& s = context_stack();
  return s.empty() ? nullptr : s.back();
}

CUresult current_context(Context*& c) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  c = current();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c->error;
}

static Context* make_context(DeviceState* d, unsigned flags, bool primary) {
  auto* c = new Context;
  c->device = d;
  c->flags = flags;
  c->primary = primary;
  auto legacy = std::make_shared<StreamState>();
  legacy->context = c;
  legacy->legacy = true;
  c->streams.push_back(legacy);
  Driver* dr = driver();
  std::lock_guard lock(dr->mutex);
  c->id = dr->next_id++;
  if (!d->runner)
    d->runner = std::make_unique<GridRunner>(
        d->engine, std::clamp(std::thread::hardware_concurrency(), 1u, 64u),
        GridRunner::HostMemory{registered_memory, sample_texture});
  dr->handles.insert(c);
  return c;
}

// Drains the streams, frees what the context allocated; the object itself stays, marked.
static void destroy_context(Context* c) {
  {
    std::lock_guard lock(c->mutex);
    c->destroyed = true;
  }
  wait_for_context(c);
  Driver* d = driver();
  std::vector<uint64_t> bases;
  {
    std::lock_guard lock(d->mutex);
    for (auto& [base, a] : d->allocations)
      if (a.context == c && (a.kind == Allocation::device || a.kind == Allocation::host))
        bases.push_back(base);
  }
  for (uint64_t base : bases) release_memory(base);
  std::lock_guard lock(c->mutex);
  for (auto& s : c->streams) s->closing = true;
  c->changed.notify_all();
}

}  // namespace softgpu

using namespace softgpu;

static CUresult create(CUcontext* out, unsigned flags, CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c = make_context(d, flags, false);
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
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto* c = (Context*)ctx;
  if (!ctx || !known(c) || c->primary || c->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_context(c);
  auto& s = context_stack();
  if (!s.empty() && s.back() == c) s.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  Context* c;
  if (CUresult r = current_context(c)) return r;
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  ++c->attached;
  *out = (CUcontext)c;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDetach(CUcontext ctx) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto* c = (Context*)ctx;
  if (!ctx || !known(c) || c->primary || c->destroyed || c != current())
    return CUDA_ERROR_INVALID_CONTEXT;
  return --c->attached > 0 ? CUDA_SUCCESS : cuCtxDestroy(ctx);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  static std::mutex retaining;
  std::lock_guard lock(retaining);
  if (!d->primary || d->primary->destroyed) d->primary = make_context(d, d->primary_flags, true);
  d->primary_references++;
  *out = (CUcontext)d->primary;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (d->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--d->primary_references == 0) destroy_context(d->primary);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (d->primary && !d->primary->destroyed) destroy_context(d->primary);
  d->primary_references = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  d->primary_flags = flags;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags, int* active) {
  DeviceState* d = device_at(dev);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (flags) *flags = d->primary_flags;
  if (active) *active = d->primary && !d->primary->destroyed;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext ctx) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto& s = context_stack();
  if (ctx && !known((Context*)ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!s.empty()) s.pop_back();
  if (ctx) s.push_back((Context*)ctx);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext* out) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)current();
  return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent(CUcontext ctx) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!ctx || !known((Context*)ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back((Context*)ctx);
  return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent(CUcontext* out) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto& s = context_stack();
  if (s.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = (CUcontext)s.back();
  s.pop_back();
  return CUDA_SUCCESS;
}

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

API CUresult cuCtxGetDevice(CUdevice* dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  Context* c = current();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!dev) return CUDA_ERROR_INVALID_VALUE;
  *dev = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetFlags(unsigned* flags) {
  CURRENT(c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = c->flags;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext ctx, unsigned long long* id) {
  Context* c = ctx ? (Context*)ctx : current();
  if (!c || !id) return CUDA_ERROR_INVALID_VALUE;
  *id = c->id;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}
#undef cuCtxSynchronize
API CUresult cuCtxSynchronize(void) {
  CURRENT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  return wait_for_context(c);
}
API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  CURRENT(c);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if ((unsigned)limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = c->limits[limit];
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  CURRENT(c);
  if ((unsigned)limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  c->limits[limit] = value;
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
    c->device->runner->heap().limit((value + 4095) & ~4095ull);
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  CURRENT(c);
  (void)c;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  CURRENT(c);
  (void)c;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  CURRENT(c);
  (void)c;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
API CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  CURRENT(c);
  (void)c;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDisablePeerAccess(CUcontext) {
  CURRENT(c);
  (void)c;
  return CUDA_SUCCESS;
}

// What profilers begin and end; there is nothing to collect.
API CUresult cuProfilerInitialize(const char*, const char*, int) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuProfilerStart(void) {
  CURRENT(c);
  (void)c;
  return CUDA_SUCCESS;
}
API CUresult cuProfilerStop(void) {
  CURRENT(c);
  (void)c;
  return CUDA_SUCCESS;
}
