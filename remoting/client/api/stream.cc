// CUDA entry points: streams. Queries read the completion counter and need no round trip.
#include "client/api/require.h"
#include "client/capture.h"
#include "client/host_mirror_count.h"
#include "client/mapped.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  REQUIRE_CONTEXT(c);
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  StreamRef s;
  if (CUresult r = open_stream(c, flags, priority, s)) return r;
  s->handle = session()->streams.add(s.get());
  *out = (CUstream)s->handle;
  MutexLock lock(c->mutex);
  if (flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams++;
  c->streams.push_back(std::move(s));
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

API CUresult cuStreamDestroy(CUstream h) {
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  if (!h || h == CU_STREAM_LEGACY || h == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  Stream* s = session()->streams.remove(h);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capturing) leave_capture(*s);
  Context* c = s->context;
  wire::Encoder<> e(wire::Op::destroy_stream, c->id);
  e.put(s->id);
  c->device->link->submit(e.finish(), e.size());
  StreamRef last = retain(s);  // freed after the lock is released, as those of `ended`
  std::vector<StreamRef> ended;
  MutexLock lock(c->mutex);
  std::erase(c->streams, last);
  c->ended_streams.swap(ended);
  ended.push_back(last);
  for (auto& stream : ended)
    if (!stream->progress.done()) c->ended_streams.push_back(stream);
  if (s->flags & CU_STREAM_NON_BLOCKING) c->non_blocking_streams--;
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream h) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (s->legacy)  // forbidden beside captures of other contexts too
    if (CUresult r = unsafe_in_capture()) return r;
  if (CUresult r = forbid_in_capture(*s)) return r;
  CUresult r = s->legacy ? synchronize(c) : wait_for_submitted(s);
  if (!r) r = flush_kernel_output(c);
  return !r && has_host_mirrors() ? fetch_mapped(c) : r;
}

API CUresult cuStreamQuery(CUstream h) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (CUresult r = forbid_in_capture(*s)) return r;
  c->device->link->poll_frames();
  if (!s->progress.done()) return CUDA_ERROR_NOT_READY;
  return has_host_mirrors() ? fetch_mapped(c) : CUDA_SUCCESS;
}
API CUresult cuStreamGetFlags(CUstream h, unsigned* flags) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = s->flags;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetPriority(CUstream h, int* priority) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetId(CUstream h, unsigned long long* id) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = s->id;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetDevice(CUstream h, CUdevice* device) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = s->context->device->ordinal;
  return CUDA_SUCCESS;
}
#undef cuStreamGetCtx
API CUresult cuStreamGetCtx(CUstream h, CUcontext* out) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUcontext)s->context->handle;
  return CUDA_SUCCESS;
}

// Attributes that affect only the speed of work. They are stored in the client and have no effect.
static bool is_performance_attribute(CUstreamAttrID a) {
  return a == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         a == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || a == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN || a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         a == CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
}

API CUresult cuStreamSetAttribute(CUstream h, CUstreamAttrID which,
                                  const CUstreamAttrValue* value) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!value || !is_performance_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(c->mutex);
  s->attributes[which] = *value;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetAttribute(CUstream h, CUstreamAttrID which, CUstreamAttrValue* value) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(s, h, c);
  if (!value || !is_performance_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = s->priority;
  MutexLock lock(c->mutex);
  if (auto it = s->attributes.find(which); it != s->attributes.end()) *value = it->second;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  REQUIRE_CONTEXT(c);
  REQUIRE_STREAM(a, to, c);
  REQUIRE_STREAM(b, from, c);
  if (a->context != b->context) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(a->context->mutex);
  a->attributes = b->attributes;
  return CUDA_SUCCESS;
}
