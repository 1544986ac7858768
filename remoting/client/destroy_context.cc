#include "client/destroy_context.h"

#include "client/capture.h"
#include "client/context.h"
#include "client/context_storage.h"
#include "client/mapped.h"
#include "client/module.h"
#include "client/session.h"

namespace busbar::client {

namespace {
// While it exists, no capture of the program forbids a call of this thread.
class NoForbiddenCalls {
 public:
  NoForbiddenCalls() { exchange_capture_mode(mode_); }
  ~NoForbiddenCalls() { exchange_capture_mode(mode_); }
  NoForbiddenCalls(const NoForbiddenCalls&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

std::vector<StreamRef> streams_of(Context* c) {
  MutexLock lock(c->mutex);
  return c->streams;
}
}  // namespace

void destroy_context(Context* c) {
  NoForbiddenCalls during_end;
  for (auto& s : streams_of(c)) leave_capture(*s);
  synchronize(c);
  destroy_context_storage((CUcontext)c->handle);
  for (auto& r : session()->addresses.of_context(c)) {
    if (r.kind == Region::device || r.kind == Region::managed) cuMemFree(r.base);
    if (r.kind == Region::pinned) cuMemFreeHost((void*)r.base);
    if (r.kind == Region::registered) cuMemHostUnregister((void*)r.base);
  }
  unmap_context(c);
  for (auto& s : streams_of(c)) cuStreamDestroy((CUstream)s->handle);
  for (Module* m : modules_of(c)) unload_module(m);
  c->destroyed = true;
  wire::Encoder<> e(wire::Op::destroy_context, c->id);
  e.put(c->legacy.id);
  c->device->link->submit(e.finish(), e.size());
}

}  // namespace busbar::client
