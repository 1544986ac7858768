#include "client/destroy_context.h"

#include "client/context.h"
#include "client/context_storage.h"
#include "client/mapped.h"
#include "client/module.h"
#include "client/session.h"

namespace busbar::client {

void destroy_context(Context* c) {
  synchronize(c);
  destroy_context_storage((CUcontext)c->handle);
  for (auto& r : session()->addresses.of_context(c)) {
    if (r.kind == Region::device || r.kind == Region::managed) cuMemFree(r.base);
    if (r.kind == Region::pinned) cuMemFreeHost((void*)r.base);
    if (r.kind == Region::registered) cuMemHostUnregister((void*)r.base);
  }
  unmap_context(c);
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

}  // namespace busbar::client
