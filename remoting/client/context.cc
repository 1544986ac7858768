// Contexts: state of the client, one answer from the node when a context is made.
#include <algorithm>

#include "client/call.h"

namespace busbar::client {

std::vector<Context*>& context_stack() {
  static thread_local auto* stack =
      new std::vector<Context*>;  // leaked: runtimes call us after thread-locals are gone
  return *stack;
}

Context* current_context() {
  auto& s = context_stack();
  return s.empty() ? nullptr : s.back();
}

CUresult require_context(Context*& c) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  c = current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->destroyed.load(std::memory_order_relaxed)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c->device->link->error();
}

// Makes a context live on the node, with numbers of its own. One that was ended may live again.
static CUresult activate(Context* c) {
  Session* s = session();
  Device* d = c->device;
  c->id = s->next_number++;
  c->legacy.context = c;
  c->legacy.id = s->next_number++;
  c->legacy.legacy = true;
  c->legacy.progress.last = c->legacy.progress.completed = 0;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::create_context, 0);
  e.put(id).put(c->id).put(d->remote).put(c->legacy.id);
  d->link->watch(c->legacy.id, &c->legacy.progress);
  Answer a = d->link->ask(id, e.finish(), e.size());
  if (a.status) {
    d->link->watch(c->legacy.id, nullptr);
    return (CUresult)a.status;
  }
  c->life++;
  c->destroyed = false;
  return CUDA_SUCCESS;
}

static Context* new_context(Device* d, unsigned flags, bool primary) {
  auto* c = new Context;
  c->device = d;
  c->flags = flags;
  c->primary = primary;
  c->destroyed = true;
  c->handle = session()->contexts.add(c);
  return c;
}

Context* primary_context(Device* d) {
  if (!d->primary) d->primary = new_context(d, d->primary_flags, true);
  return d->primary;
}

CUresult make_context(Device* d, unsigned flags, Context*& out) {
  Context* c = new_context(d, flags, false);
  if (CUresult r = activate(c)) {
    session()->contexts.remove(c->handle);
    delete c;
    return r;
  }
  out = c;
  return CUDA_SUCCESS;
}

// Everything that lives in a context goes with it: what libraries stored, memory, streams.
static void end_context(Context* c) {
  synchronize(c);
  destroy_context_storage((CUcontext)c->handle);
  for (auto& r : session()->addresses.of_context(c)) {
    if (r.kind == Region::device || r.kind == Region::managed) cuMemFree(r.base);
    if (r.kind == Region::pinned) cuMemFreeHost((void*)r.base);
    if (r.kind == Region::registered) cuMemHostUnregister((void*)r.base);
  }
  std::vector<StreamRef> streams;
  {
    std::lock_guard lock(c->mutex);
    streams = c->streams;
  }
  for (auto& s : streams) cuStreamDestroy((CUstream)s->handle);
  for (Module* m : modules_of(c)) unload_module(m);
  c->destroyed = true;
  wire::Encoder<> e(wire::Op::destroy_context, c->id);
  e.put(c->legacy.id);
  c->device->link->submit(e.finish(), e.size());
}

// What kernels printed is out before a synchronisation returns. Only when a module said that it may
// print; else the node sends it when it is idle.
CUresult take_output(Context* c) {
  if (!session()->prints) return CUDA_SUCCESS;
  Link* link = c->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> e(wire::Op::flush_output, c->id);
  e.put(id);
  return (CUresult)link->ask(id, e.finish(), e.size()).status;
}

CUresult synchronize(Context* c) {
  std::vector<StreamRef> streams{kept(&c->legacy)};
  {
    std::lock_guard lock(c->mutex);
    streams.insert(streams.end(), c->streams.begin(), c->streams.end());
  }
  for (auto& s : streams)
    if (CUresult r = wait_for(s.get(), s->progress.last.load())) return r;
  return c->device->link->error();
}

}  // namespace busbar::client

using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define READY \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED
#define DEVICE(d, dev)                                                                    \
  READY;                                                                                  \
  if (dev < 0 || dev >= (int)session()->devices.size()) return CUDA_ERROR_INVALID_DEVICE; \
  Device* d = session()->devices[(size_t)dev].get()

// The program's own wait: afterwards it may look at memory that kernels wrote.
static CUresult wait_for_all(Context* c) {
  CUresult r = synchronize(c);
  return !r && mirrored() ? fetch_mapped(c) : r;
}

static CUresult create(CUcontext* out, unsigned flags, CUdevice dev) {
  DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c;
  if (CUresult r = make_context(d, flags, c)) return r;
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
  READY;
  Context* c = session()->contexts.get(h);
  if (!c || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
  end_context(c);
  session()->contexts.remove(h);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == c) stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(d->mutex);
  Context* c = primary_context(d);
  if (c->destroyed)
    if (CUresult r = activate(c)) return r;
  d->primary_references++;
  *out = (CUcontext)d->primary->handle;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  DEVICE(d, dev);
  std::lock_guard lock(d->mutex);
  if (d->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--d->primary_references == 0) end_context(d->primary);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  DEVICE(d, dev);
  std::lock_guard lock(d->mutex);
  if (d->primary && !d->primary->destroyed) end_context(d->primary);
  d->primary_references = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
  DEVICE(d, dev);
  d->primary_flags = flags;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags, int* active) {
  DEVICE(d, dev);
  std::lock_guard lock(d->mutex);
  if (flags) *flags = d->primary_flags;
  if (active) *active = d->primary && !d->primary->destroyed;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext h) {
  READY;
  Context* c = h ? session()->contexts.get(h) : nullptr;
  if (h && !c) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (c) stack.push_back(c);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext* out) {
  READY;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Context* c = current_context();
  *out = c ? (CUcontext)c->handle : nullptr;
  return CUDA_SUCCESS;
}
API CUresult cuCtxPushCurrent(CUcontext h) {
  READY;
  Context* c = session()->contexts.get(h);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(c);
  return CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent(CUcontext* out) {
  READY;
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = (CUcontext)stack.back()->handle;
  stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice* out) {
  READY;
  Context* c = current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetFlags(unsigned* flags) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = c->flags;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext h, unsigned long long* id) {
  READY;
  Context* c = h ? session()->contexts.get(h) : current_context();
  if (!c || !id) return CUDA_ERROR_INVALID_VALUE;
  *id = c->id;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  READY;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}
#undef cuCtxSynchronize
API CUresult cuCtxSynchronize(void) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  if (CUresult e = unsafe_in_capture()) return e;
  CUresult r = wait_for_all(c);
  return r ? r : take_output(c);
}

#undef cuCtxGetDevice
API CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext h) {
  READY;
  Context* c = h ? session()->contexts.get(h) : current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = c->device->ordinal;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize_v2(CUcontext h) {
  READY;
  Context* c = h ? session()->contexts.get(h) : current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult r = c->device->link->error()) return r;
  if (CUresult r = unsafe_in_capture()) return r;
  CUresult r = wait_for_all(c);
  return r ? r : take_output(c);
}
API CUresult cuCtxSetFlags(unsigned flags) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  c->flags = flags;
  return CUDA_SUCCESS;
}

// All work of a context as one place: what its streams hold now.
API CUresult cuCtxRecordEvent(CUcontext h, CUevent event) {
  READY;
  Context* c = h ? session()->contexts.get(h) : current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->capturing_streams) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (CUresult r = synchronize(c)) return r;
  context_stack().push_back(c);
  CUresult r = cuEventRecord(event, CU_STREAM_LEGACY);
  context_stack().pop_back();
  return r;
}
API CUresult cuCtxWaitEvent(CUcontext h, CUevent event) {
  READY;
  if (h && !session()->contexts.get(h)) return CUDA_ERROR_INVALID_CONTEXT;
  return cuEventSynchronize(event);  // whatever is submitted from now on comes after it
}

// One reference more, one less; the last one's end is the context's.
API CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  CURRENT(c);
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  ++c->attached;
  *out = (CUcontext)c->handle;
  return CUDA_SUCCESS;
}
API CUresult cuCtxDetach(CUcontext h) {
  READY;
  Context* c = session()->contexts.get(h);
  if (!c || c->primary || c != current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  return --c->attached > 0 ? CUDA_SUCCESS : cuCtxDestroy(h);
}

// What a profiler begins and ends; there is none on this side.
API CUresult cuProfilerInitialize(const char*, const char*, int) {
  return CUDA_ERROR_NOT_SUPPORTED;
}  // as drivers since 12.0; old programs link it
API CUresult cuProfilerStart(void) {
  Context* c;
  return require_context(c);
}
API CUresult cuProfilerStop(void) {
  Context* c;
  return require_context(c);
}
