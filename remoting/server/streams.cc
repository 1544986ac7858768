// Contexts and streams of the program.
#include "server/capture.h"
#include "server/handlers.h"
#include "server/pipeline.h"
#include "server/staging.h"

namespace busbar::server {

namespace {
constexpr size_t kMaxContexts = 64;

// Other ids are queues of records without a stream, which must not end with a context.
bool valid_stream_id(uint32_t id) {
  return id >= wire::kFirstStream && id < StreamQueues::kChanges;
}

CUresult make_context(Session& s, uint32_t id, uint32_t device, uint32_t legacy) {
  ContextState c;
  c.device = device;
  if (CUresult r = s.cu.cuDevicePrimaryCtxRetain(&c.handle, s.devices[device].device)) return r;
  s.cu.cuCtxSetCurrent(c.handle);
  s.current = c.handle;
  StreamState st;
  st.handle = CU_STREAM_LEGACY;
  st.id = legacy;
  st.context = id;
  st.legacy = true;
  st.gate = s.gate_of(device);
  s.contexts.put(id, c);
  s.streams.put(legacy, st);
  return CUDA_SUCCESS;
}
}  // namespace

namespace {
void answer(Pipeline& p, const ContextRequest& r) {
  Session& s = p.session;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  bool is_new = valid_stream_id(r.legacy) && !s.stream(r.legacy) && !s.context(r.id);
  if (s.contexts.size() >= kMaxContexts)
    result = CUDA_ERROR_INVALID_DEVICE;
  else if (!is_new)
    result = CUDA_ERROR_INVALID_VALUE;
  else if (s.has_charged_context(r.device))
    result = make_context(s, r.id, r.device, r.legacy);
  s.reply(r.reply, result);
  if (!result && s.contexts.size() == 1 && s.pinned.begin_growth() == Growth::begin)
    grow_pool(p);  // for the first copies
}
}  // namespace

// context, device, legacy stream. The charge of a device's first context waits for the launcher.
bool handlers::create_context(Pipeline& p, const Record& r) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  ContextRequest request;
  request.reply = in.get<uint64_t>();
  request.id = in.get<uint32_t>();
  request.device = in.get<uint32_t>();
  request.legacy = in.get<uint32_t>();
  if (!in.ok() || request.device >= s.devices.size() || p.contexts.size() >= kMaxContexts) {
    s.reply(request.reply, CUDA_ERROR_INVALID_DEVICE);
  } else if (s.has_charged_context(request.device)) {
    answer(p, request);
  } else {
    request.charged = std::make_shared<std::atomic<bool>>(false);
    p.contexts.push_back(request);
    p.workers.memory.post(nullptr, [&s, device = request.device, charged = request.charged] {
      s.charge_context(device);
      *charged = true;
      s.link.wake();
    });
  }
  return true;
}

void make_charged_contexts(Pipeline& p) {
  while (has_charged_context(p)) {
    ContextRequest request = p.contexts.front();
    p.contexts.pop_front();
    answer(p, request);
  }
}

// Ends a context of the client. The primary context of the device lives as long as the session.
bool handlers::destroy_context(Pipeline& p, const Record& r) {
  Session& s = p.session;
  uint32_t context = r.head.context;
  for (auto& [id, st] : s.streams) {
    if (st.context != context) continue;
    p.fences.record_last(st);
    forget_captured_graph(s, st);
  }
  s.streams.erase_if([&](auto& entry) {
    if (entry.second.context != context) return false;
    if (!entry.second.legacy) s.cu.cuStreamDestroy(entry.second.handle);
    return true;
  });
  std::erase_if(s.events, [&](auto& e) { return e.second.context == context; });
  if (ContextState* c = s.context(context))
    for (CUevent e : c->idle_events) s.cu.cuEventDestroy(e);
  s.contexts.erase(context);
  return true;
}

// limit, 0, value
void handlers::set_limit(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto limit = (CUlimit)in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t value = in.get<uint64_t>();
  if (!in.ok()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.reply(reply, s.limits.set(s.current_partition(), limit, value));
}

// stream, flags, priority
bool handlers::create_stream(Pipeline& p, const Record& r) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  StreamState st;
  st.id = in.get<uint32_t>();
  uint32_t flags = in.get<uint32_t>();
  int32_t priority = in.get<int32_t>();
  if (!in.ok() || !valid_stream_id(st.id) || s.stream(st.id) ||
      s.streams.size() >= wire::kMaxObjects)
    return false;
  st.context = r.head.context;
  if (ContextState* c = s.context(st.context)) st.gate = s.gate_of(c->device);
  st.blocking = !(flags & CU_STREAM_NON_BLOCKING);
  p.fences.check(s.cu.cuStreamCreateWithPriority(&st.handle, flags, priority));
  s.streams.put(st.id, st);
  return true;
}

// stream
bool handlers::destroy_stream(Pipeline& p, const Record& r) {
  StreamState* st = p.session.stream(r.decoder().get<uint32_t>());
  if (!st || st->legacy) return true;
  p.fences.record_last(*st);
  forget_captured_graph(p.session, *st);
  p.session.cu.cuStreamDestroy(st->handle);
  p.session.streams.erase(st->id);
  return true;
}

// Publishes the completion of everything on the stream as soon as possible.
Outcome handlers::completion_fence(Pipeline& p, Record& r, StreamState& st) {
  if (!st.capturing) p.fences.record(st, r.position);
  return Outcome::done;
}

bool handlers::end_session(Pipeline& p, const Record&) {
  p.leaving = true;
  return true;
}

}  // namespace busbar::server
