// Contexts and streams of the program.
#include <utility>

#include "server/capture.h"
#include "server/handlers.h"
#include "server/pipeline.h"
#include "server/retire_shared.h"
#include "server/staging.h"
#include "wire/enumeration.h"

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

// A driver copies other host memory through buffers of its own, and then the call waits for the
// stream. Registration may wait for all work, so it is done once, before there is any. A failure
// only makes copies slow.
void register_chunks(Session& s) {
  transport::SharedMemory* shared = s.link.shared();
  if (!shared || !s.cu.cuMemHostRegister || std::exchange(s.has_registered_chunks, true)) return;
  constexpr uint64_t kBytes = 2ull * transport::kSharedChunks * transport::kSharedChunkBytes;
  s.cu.cuMemHostRegister(shared->chunk(true, 0), kBytes, CU_MEMHOSTREGISTER_PORTABLE);
}

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
  bool is_first = !result && s.contexts.size() == 1;
  if (is_first) register_chunks(s);
  s.reply(r.reply, result);
  if (is_first && s.pinned.begin_growth() == Growth::begin) grow_pool(p);  // for the first copies
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

// Ends the events of a context.
static void end_events_of(Pipeline& p, uint32_t context) {
  auto& events = p.session.events;
  for (auto it = events.begin(); it != events.end();) {
    if (it->second.context == context) {
      retire_shared(p, it->second);
      it = events.erase(it);
    } else {
      ++it;
    }
  }
}

static void close_stream(Session& s, StreamState& st) {
  if (st.legacy) return;
  leave_capture(s, st);
  s.cu.cuStreamDestroy(st.handle);
}

// Ends a context of the client. The primary context of the device lives as long as the session.
bool handlers::destroy_context(Pipeline& p, const Record& r) {
  Session& s = p.session;
  uint32_t context = r.head.context;
  end_events_of(p, context);
  for (auto& [id, st] : s.streams) {
    if (st.context != context) continue;
    p.fences.record_last(st);
    leave_shared(p, st);
  }
  for (auto& [id, st] : s.streams)
    if (st.context == context) close_stream(s, st);
  s.streams.erase_if([&](auto& entry) { return entry.second.context == context; });
  if (ContextState* c = s.context(context))
    for (CUevent e : c->idle_events) s.cu.cuEventDestroy(e);
  s.contexts.erase(context);
  update_captures(s);
  return true;
}

// limit, 1: ask other sessions for unused memory, value
void handlers::set_limit(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t limit = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  uint64_t value = in.get<uint64_t>();
  if (!in.ok()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (!wire::is_value<CUlimit>(limit)) return s.reply(reply, CUDA_ERROR_UNSUPPORTED_LIMIT);
  s.reply(reply, s.limits.set(s.current_partition(), (CUlimit)limit, value, asks));
}

// stream, flags, priority
bool handlers::create_stream(Pipeline& p, const Record& r) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  StreamState st;
  st.id = in.get<uint32_t>();
  uint32_t flags = in.get<uint32_t>();
  st.priority = in.get<int32_t>();
  ContextState* c = s.context(r.head.context);
  if (!in.ok() || !c || !valid_stream_id(st.id) || s.stream(st.id) ||
      s.streams.size() >= wire::kMaxObjects)
    return false;
  st.context = r.head.context;
  st.gate = s.gate_of(c->device);
  st.blocking = !(flags & CU_STREAM_NON_BLOCKING);
  p.fences.check(s.cu.cuStreamCreateWithPriority(&st.handle, flags, st.priority));
  s.streams.put(st.id, st);
  return true;
}

// stream
bool handlers::destroy_stream(Pipeline& p, const Record& r) {
  StreamState* st = p.session.stream(r.decoder().get<uint32_t>());
  if (!st || st->legacy) return true;
  p.fences.record_last(*st);
  leave_shared(p, *st);
  close_stream(p.session, *st);
  p.session.streams.erase(st->id);
  if (p.session.active_captures) update_captures(p.session);
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
