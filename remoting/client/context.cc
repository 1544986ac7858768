#include "client/context.h"

#include "client/session.h"

namespace busbar::client {

// Leaked: runtimes call this library after thread-local objects are destroyed.
std::vector<Context*>& context_stack() {
  static thread_local auto* stack = new std::vector<Context*>;
  return *stack;
}

Context* current_context() {
  auto& s = context_stack();
  return s.empty() ? nullptr : s.back();
}

CUresult require_context(Context*& c) {
  if (!has_session()) return CUDA_ERROR_NOT_INITIALIZED;
  c = current_context();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->destroyed.load(std::memory_order_relaxed)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c->device->link->error();
}

CUresult activate_context(Context* c) {
  Session* s = session();
  Device* d = c->device;
  c->id = s->next_id++;
  c->legacy.id = s->next_id++;
  c->legacy.progress.last = c->legacy.progress.completed.load();  // freed ranges wait for positions
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::create_context, 0);
  e.put(id).put(c->id).put(d->remote).put(c->legacy.id);
  d->link->track(c->legacy.id, &c->legacy.progress);
  Reply reply = d->link->call(id, e.finish(), e.size());
  if (reply.status) {
    d->link->track(c->legacy.id, nullptr);
    return (CUresult)reply.status;
  }
  c->generation++;
  c->destroyed = false;
  return CUDA_SUCCESS;
}

static Context* make_inactive(Device* d, unsigned flags, bool primary) {
  auto* c = new Context;
  c->device = d;
  c->flags = flags;
  c->primary = primary;
  c->destroyed = true;
  c->legacy.context = c;
  c->legacy.link = d->link;
  c->legacy.legacy = true;
  c->handle = session()->contexts.add(c);
  return c;
}

Context* primary_context(Device* d) {
  if (!d->primary) d->primary = make_inactive(d, d->primary_flags, true);
  return d->primary;
}

CUresult create_context(Device* d, unsigned flags, Context*& out) {
  Context* c = make_inactive(d, flags, false);
  if (CUresult r = activate_context(c)) {
    session()->contexts.remove(c->handle);
    delete c;
    return r;
  }
  out = c;
  return CUDA_SUCCESS;
}

CUresult open_stream(Context* c, unsigned flags, int priority, StreamRef& out) {
  out = std::make_shared<Stream>();
  out->context = c;
  out->link = c->device->link;
  out->id = session()->next_id++;
  out->flags = flags;
  out->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  wire::Encoder<> e(wire::Op::create_stream, c->id);
  e.put(out->id).put<uint32_t>(flags).put<int32_t>(out->priority);
  out->link->track(out->id, &out->progress);
  return out->link->submit(e.finish(), e.size()) ? CUDA_SUCCESS : out->link->error();
}

std::vector<StreamRef> streams_with_work(Context* c) {
  std::vector<StreamRef> streams{retain(&c->legacy)};
  MutexLock lock(c->mutex);
  for (auto* list : {&c->streams, &c->ended_streams})
    streams.insert(streams.end(), list->begin(), list->end());
  return streams;
}

CUresult synchronize(Context* c) {
  for (auto& s : streams_with_work(c))
    if (CUresult r = wait_for_submitted(s.get())) return r;
  return c->device->link->error();
}

CUresult flush_kernel_output(Context* c) {
  if (!session()->prints) return CUDA_SUCCESS;
  Link* link = c->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> e(wire::Op::flush_output, c->id);
  e.put(id);
  auto r = (CUresult)link->call(id, e.finish(), e.size()).status;
  link->kernel_output.flush();
  return r;
}

}  // namespace busbar::client
