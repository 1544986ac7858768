// Streams. Queries are local reads of the completion counter.
#include <algorithm>

#include "client/call.h"

namespace busbar::client {

Stream::~Stream() {
  if (context && !legacy) context->device->link->watch(id, nullptr);
}

// The legacy stream is a part of its context, and contexts stay.
StreamRef kept(Stream* s) {
  return s && !s->legacy ? s->weak_from_this().lock() : StreamRef(StreamRef(), s);
}

Stream* stream_of(CUstream h, Context* c) {
  if (h == nullptr && t_per_thread_default > 0) h = CU_STREAM_PER_THREAD;
  if (h == nullptr || h == CU_STREAM_LEGACY) return &c->legacy;
  if (h != CU_STREAM_PER_THREAD) return session()->streams.get(h);
  static thread_local auto* own =
      new std::unordered_map<Context*, CUstream>;  // an explicit blocking stream a thread
  CUstream& made = (*own)[c];
  Stream* s = session()->streams.get(made);
  if (!s) {
    CUcontext before = nullptr;
    cuCtxGetCurrent(&before);
    cuCtxPushCurrent((CUcontext)c->handle);
    if (cuStreamCreateWithPriority(&made, 0, 0) == CUDA_SUCCESS) s = session()->streams.get(made);
    cuCtxPopCurrent(nullptr);
  }
  return s;
}

void submitted(Stream* s, uint64_t position) {
  uint64_t last = s->progress.last.load(std::memory_order_relaxed);
  while (last < position &&
         !s->progress.last.compare_exchange_weak(last, position, std::memory_order_acq_rel)) {
  }
}

CUresult wait_for(Stream* s, uint64_t position) {
  Link* link = s->context->device->link;
  auto done = [&] {
    return s->progress.completed.load(std::memory_order_acquire) >= position;
  };
  if (position == 0 || done()) return link->error();
  link->note_wait();
  return link->wait(
      done);  // the node marks a stream as soon as its ring runs dry, so no request is needed
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define STREAM(s, h, c)        \
  Stream* s = stream_of(h, c); \
  if (!s) return CUDA_ERROR_INVALID_HANDLE
#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r

API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  CURRENT(c);
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto s = std::make_shared<Stream>();
  s->context = c;
  s->id = session()->next_number++;
  s->flags = flags;
  s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  wire::Encoder<> e(wire::Op::create_stream, c->id);
  e.put(s->id).put<uint32_t>(flags).put<int32_t>(s->priority);
  c->device->link->watch(s->id, &s->progress);
  if (!c->device->link->submit(e.finish(), e.size())) return c->device->link->error();
  s->handle = session()->streams.add(s.get());
  *out = (CUstream)s->handle;
  std::lock_guard lock(c->mutex);
  if (flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams++;
  c->streams.push_back(std::move(s));
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

API CUresult cuStreamDestroy(CUstream h) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  if (!h || h == CU_STREAM_LEGACY || h == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = session()->streams.remove(h);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  Context* c = s->context;
  wire::Encoder<> e(wire::Op::destroy_stream, c->id);
  e.put(s->id);
  c->device->link->submit(e.finish(), e.size());
  StreamRef last = kept(s);  // goes behind the lock
  std::lock_guard lock(c->mutex);
  std::erase(c->streams, last);
  if (s->flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams--;
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream h) {
  CURRENT(c);
  STREAM(s, h, c);
  if (CUresult r = forbid_in_capture(*s)) return r;
  CUresult r = s->legacy ? synchronize(c) : wait_for(s, s->progress.last.load());
  if (!r) r = take_output(c);
  return !r && mirrored() ? fetch_mapped(c) : r;
}

API CUresult cuStreamQuery(CUstream h) {
  CURRENT(c);
  STREAM(s, h, c);
  if (CUresult r = forbid_in_capture(*s)) return r;
  c->device->link->glance();
  return s->progress.done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
API CUresult cuStreamGetFlags(CUstream h, unsigned* flags) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = s->flags;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetPriority(CUstream h, int* priority) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetId(CUstream h, unsigned long long* id) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = s->id;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetDevice(CUstream h, CUdevice* device) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = s->context->device->ordinal;
  return CUDA_SUCCESS;
}
#undef cuStreamGetCtx
API CUresult cuStreamGetCtx(CUstream h, CUcontext* out) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)s->context->handle;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetCtx_v2(CUstream h, CUcontext* out, CUgreenCtx* green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(h, out);
}

// Attributes that change how fast something runs, never what comes out: kept here and handed back.
static bool plain_attribute(CUstreamAttrID a) {
  return a == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         a == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN || a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
}

API CUresult cuStreamSetAttribute(CUstream h, CUstreamAttrID which,
                                  const CUstreamAttrValue* value) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!value || !plain_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  s->attributes[which] = *value;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetAttribute(CUstream h, CUstreamAttrID which, CUstreamAttrValue* value) {
  CURRENT(c);
  STREAM(s, h, c);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    value->priority = s->priority;
    return CUDA_SUCCESS;
  }
  if (!plain_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  if (auto it = s->attributes.find(which); it != s->attributes.end()) *value = it->second;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  CURRENT(c);
  STREAM(a, to, c);
  STREAM(b, from, c);
  std::lock_guard lock(c->mutex);
  a->attributes = b->attributes;
  return CUDA_SUCCESS;
}
