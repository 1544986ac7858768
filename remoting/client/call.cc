#include "client/call.h"

#include "client/event.h"
#include "client/library.h"
#include "client/mapped.h"

namespace busbar::client {

CUresult Call::begin_without_context() {
  if (!has_session()) return CUDA_ERROR_NOT_INITIALIZED;
  context_ = current_context();
  if (context_ && context_->destroyed.load(std::memory_order_relaxed)) context_ = nullptr;
  link_ = context_ ? context_->device->link : session()->devices.front()->link;
  return link_->error();
}

CUresult Call::move_to_node_of(CUdeviceptr p) {
  Region r = session()->addresses.find(p);
  if (r.kind == Region::pinned) return map_pinned(context_, p);
  if (!r.on_device()) return CUDA_ERROR_INVALID_VALUE;
  if (r.context->device->link == link_) return CUDA_SUCCESS;
  if (stream_)
    if (CUresult e = wait_for_submitted(stream_)) return e;
  context_ = r.context;
  link_ = context_->device->link;
  if (stream_) stream_ = &context_->legacy;
  moved_ = true;
  return link_->error();
}

bool Call::select_node_of(ObjectKind kind, uint64_t value) {
  ObjectHome home = home_of(kind, value);
  if (!home.link) return false;
  if (home.link != link_ || !context_) {
    link_ = home.link;
    context_ = home.context && !home.context->destroyed ? home.context : nullptr;
  }
  return true;
}

CUresult Call::function(CUfunction h, uint32_t& id) {
  CUresult error;
  Function* f = find_function(h, error);
  if (f) id = f->id;
  return error;
}

CUresult Call::event(CUevent h, uint32_t& id) {
  Event* e = session()->events.get(h);
  if (!e) return CUDA_ERROR_INVALID_VALUE;  // as CUDA documents for the calls of event nodes
  if (e->shared()) return CUDA_ERROR_NOT_SUPPORTED;  // other sessions see records of streams only
  id = e->id;
  return CUDA_SUCCESS;
}

CUresult Call::context(CUcontext h, uint32_t& id) {
  Context* c = h ? session()->contexts.get(h) : context_;
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  id = c->id;
  return CUDA_SUCCESS;
}

CUresult Call::device(CUdevice ordinal, uint32_t& id) {
  Device* d = find_device(ordinal);
  if (!d) return CUDA_ERROR_INVALID_DEVICE;
  if (d->link != link_) {
    link_ = d->link;
    context_ = nullptr;
  }
  id = d->remote;
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
