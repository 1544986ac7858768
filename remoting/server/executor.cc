#include "server/executor.h"

#include <algorithm>

#include "server/output.h"

namespace busbar::server {

using wire::Op;

namespace {
constexpr size_t kReceiveBytes = 256 << 10;
constexpr int kSpinRounds = 4000;
const int kYieldEvery =
    std::thread::hardware_concurrency() < 4 ? 32 : 256;  // the client may need this core
}  // namespace

void Session::reply(uint64_t id, uint32_t status, const std::string& body) {
  struct __attribute__((packed)) {
    uint64_t id;
    uint32_t status;
  } head{id, status};
  link.send(wire::Frame::reply, &head, sizeof head, body.data(), body.size());
}

void Session::credit(uint64_t bytes) {
  uint64_t total = credit_total += bytes;
  link.send(wire::Frame::credit, &total, sizeof total);
}

// ---- helper thread ----
Helper::~Helper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Helper::post(CUcontext context, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  work_.emplace_back(context, std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void Helper::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    auto [context, work] = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    if (context) s_.cu.cuCtxSetCurrent(context);
    work();
    work = nullptr;
    lock.lock();
  }
}

// ---- executor ----
Executor::Executor(Session& s)
    : s_(s),
      queues_(s.staging,
              [this](const Record& r) {
                if (r.head.stream)
                  run_record(r);
                else
                  run_global(r);
              }),
      completions_(s, [this] { nudge(); }),
      helper_(s) {}

void Executor::nudge() {
  s_.link.wake();
}

std::string Executor::run() {
  std::vector<uint8_t> buffer;
  uint64_t at = 0;
  while (!leaving_) {
    bool quiet = buffer.size() == at;
    if (quiet && !spin(buffer)) {
      completions_.settle();
      if (!s_.link.receive(buffer, kReceiveBytes, 1000)) return "the client is gone";
      if (buffer.empty()) print_what_is_left();
    } else if (!quiet && !s_.link.receive(buffer, kReceiveBytes, 0))
      return "the client is gone";
    uint64_t used = 0;
    if (!process(buffer.data() + at, buffer.size() - at, used))
      return "malformed record at " + std::to_string(position_);
    at += used;
    if (at == buffer.size()) {
      buffer.clear();
      at = 0;
    } else if (at > (1 << 20)) {
      buffer.erase(buffer.begin(), buffer.begin() + (ptrdiff_t)at);
      at = 0;
    }
    queues_.progress();
    mark_dirty();
    completions_.poll();
    if (buffer.size() > at) {
      completions_.settle();
      if (!s_.link.receive(buffer, kReceiveBytes, 1000)) return "the client is gone";
    }  // an unfinished record
  }
  mark_dirty();
  print_what_is_left();
  return "";
}

// The driver hands out what kernels printed when somebody synchronises. Not while one runs: it may
// run for ever.
void Executor::print_what_is_left() {
  if (!s_.output || s_.launches == launches_printed_ || captures_ || !completions_.idle()) return;
  launches_printed_ = s_.launches;
  for (auto& [id, c] : s_.contexts)
    if (c.handle && s_.cu.cuCtxSetCurrent(c.handle) == CUDA_SUCCESS) {
      s_.current = c.handle;
      s_.cu.cuCtxSynchronize();
    }
  s_.output->pass_on();
}

bool Executor::process(const uint8_t* p, uint64_t n, uint64_t& used) {
  used = 0;
  while (used < n && !leaving_) {
    uint64_t one = 0;
    if (!take(p + used, n - used, one)) return false;
    if (!one) break;
    used += one;
  }
  return true;
}

// Looks for records and for finished work before it sleeps: a wake-up costs more than most of what
// is waited for. True when records came.
bool Executor::spin(std::vector<uint8_t>& buffer) {
  if (!s_.link.shared()) return false;
  for (int i = 0; i < kSpinRounds && s_.link.alive(); ++i) {
    s_.link.receive(buffer, kReceiveBytes, 0);
    if (!buffer.empty()) return true;
    completions_.poll();
    __builtin_ia32_pause();
    if (i % kYieldEvery == kYieldEvery - 1) std::this_thread::yield();
  }
  return false;
}

void Executor::use_context(uint32_t id) {
  ContextState* c = s_.context(id);
  if (!c || c->handle == s_.current) return;
  if (s_.cu.cuCtxSetCurrent(c->handle) == CUDA_SUCCESS) s_.current = c->handle;
}

// ---- order ----
std::vector<Gate> Executor::gates_for(const Record& r, const StreamState& st) const {
  std::vector<Gate> gates;
  if (Expected e = bytes_for(r);
      e.transfer && !(e.transfer & wire::kSharedTransfer) && !s_.staging.has(e.transfer, e.bytes))
    gates.push_back({0, 0, e.transfer, e.bytes});
  if (queues_.idle()) return gates;
  for (auto& [id, other] : s_.streams) {
    bool ordered = (st.legacy && other.blocking && other.context == st.context) ||
                   (st.blocking && other.legacy && other.context == st.context);
    if (id != st.id && ordered && queues_.busy(id)) gates.push_back({id, queues_.tail(id), 0, 0});
  }
  if (r.head.opcode == (uint16_t)Op::wait_event) {
    wire::Decoder in = r.decoder();
    auto it = s_.events.find(in.get<uint32_t>());
    if (it != s_.events.end() && it->second.ticket)
      gates.push_back({it->second.stream, it->second.ticket, 0, 0});
  }
  return gates;
}

bool Executor::admit(Record r) {
  StreamState* st = s_.stream(r.head.stream);
  if (!st) return false;
  bind_event(r);
  auto gates = gates_for(r, *st);
  std::erase_if(gates, [&](const Gate& g) { return queues_.passed(g); });
  if (gates.empty() && queues_.empty(st->id) && !queues_.held(st->id)) {
    run_record(r);
    return true;
  }
  uint64_t place = queues_.park(st->id, r, std::move(gates));
  if (place && r.head.opcode == (uint16_t)Op::record_event) {
    wire::Decoder in = r.decoder();
    s_.events[in.get<uint32_t>()].ticket = place;
  }
  return place != 0;
}

// A record takes the next version of its event, a wait the newest one: names are bound here, not
// when the stream gets there.
void Executor::bind_event(Record& r) {
  auto op = (Op)r.head.opcode;
  if (op != Op::record_event && op != Op::wait_event) return;
  wire::Decoder in = r.decoder();
  auto it = s_.events.find(in.get<uint32_t>());
  if (it == s_.events.end()) return;
  EventState& e = it->second;
  if (op == Op::record_event) {
    if (!e.current || (e.current.use_count() > 1 && !e.in_graph)) {
      e.current = std::make_shared<RealEvent>();
      e.current->cu = &s_.cu;
      check(s_.cu.cuEventCreate(&e.current->handle, e.flags), r.position);
    }
    e.stream = r.head.stream;
    e.ticket = 0;
  }
  r.event = e.current;
}

void Executor::global(const Record& r) {
  auto gates = queues_.all_tails();
  if (gates.empty()) {
    run_global(r);
    return;
  }
  if (!queues_.park(StreamQueues::kGlobal, r, std::move(gates))) malformed_ = true;
}

// ---- effects ----
void Executor::run_record(const Record& r) {
  StreamState* st = s_.stream(r.head.stream);
  if (!st) return;
  use_context(st->context);
  if (!st->capturing) {
    if (legacy_dirty_ && st->blocking && !st->legacy) {
      mark_legacy();
      use_context(st->context);
    }
    if (st->last <= st->marked) {
      dirty_.push_back(st->id);
      legacy_dirty_ |= st->legacy;
    }
    st->last = r.position;
  }
  wire::Decoder in = r.decoder();
  if (const GeneratedCall* g = generated(r.head.opcode)) {
    std::string none;
    check(g->run(s_, in, st->handle, none), r.position, *st);
    return;
  }
  switch ((Op)r.head.opcode) {
    case Op::copy_rows: copy_rows(r, *st); return;
    case Op::stage: stage(r, *st); return;
    case Op::launch_graph: launch_graph(r, *st); return;
    case Op::capture_host_function:
      if (st->capturing && s_.cu.cuLaunchHostFunc)
        check(s_.cu.cuLaunchHostFunc(st->handle, graph_callback(),
                                     graph_callback_data(s_, in.get<uint64_t>())),
              r.position, *st);
      return;
    case Op::launch: launch(r, *st); return;
    case Op::copy_in: copy_in(r, *st); return;
    case Op::copy_out: copy_out(r, *st); return;
    case Op::record_event:  // the mark is first: whoever waits for the event has waited for the
                            // mark
      if (!st->capturing) mark(*st, r.position);
      if (r.event && r.event->handle)
        check(s_.cu.cuEventRecord(r.event->handle, st->handle), r.position, *st);
      return;
    case Op::wait_event:
      if (r.event && r.event->handle)
        check(s_.cu.cuStreamWaitEvent(st->handle, r.event->handle, 0), r.position, *st);
      if (captures_ && !st->capturing) {
        follow_capture(*st);
        if (st->capturing) st->marked = st->last;
      }  // the wait was no work
      return;
    case Op::mark:
      if (!st->capturing) mark(*st, r.position);
      return;
    case Op::host_function: {
      if (st->capturing) return;
      Mark m;
      m.host_function = in.get<uint64_t>();
      host_functions_[m.host_function] = {st->id, r.position};
      queues_.hold(st->id);
      return mark(*st, r.position - 1,
                  std::move(m));  // what came before is done; the function itself is not
    }
    default: return;
  }
}

void Executor::host_function_done(wire::Decoder in) {
  auto it = host_functions_.find(in.get<uint64_t>());
  if (it == host_functions_.end()) return;
  auto [stream, position] = it->second;
  host_functions_.erase(it);
  queues_.resume(stream);
  if (StreamState* st = s_.stream(stream)) {
    use_context(st->context);
    mark(*st, position);
  }
}

void Executor::run_global(const Record& r) {
  wire::Decoder in = r.decoder();
  use_context(r.head.context);
  switch ((Op)r.head.opcode) {
    case Op::return_memory: return return_memory(s_, in);
    case Op::release: return release(s_, in);
    case Op::unload_module: return unload_module(s_, in);
    case Op::destroy_event: s_.events.erase(in.get<uint32_t>()); return;
    case Op::destroy_stream: {
      StreamState* st = s_.stream(in.get<uint32_t>());
      if (!st || st->legacy) return;
      if (st->last > st->marked) mark(*st, st->last);
      s_.cu.cuStreamDestroy(st->handle);
      queues_.forget(st->id);
      s_.streams.erase(st->id);
      return;
    }
    case Op::destroy_context: return destroy_context(r.head.context);
    default: return;
  }
}

void Executor::create_context(wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>(), device = in.get<uint32_t>(), legacy = in.get<uint32_t>();
  if (!in.ok() || device >= s_.devices.size() || s_.contexts.size() >= 64)
    return s_.reply(reply, CUDA_ERROR_INVALID_DEVICE);
  ContextState c;
  c.device = device;
  CUresult r = s_.cu.cuDevicePrimaryCtxRetain(&c.handle, s_.devices[device].device);
  if (r) return s_.reply(reply, r);
  StreamState st;
  s_.cu.cuCtxSetCurrent(c.handle);
  s_.current = c.handle;
  st.id = legacy;
  st.context = id;
  st.legacy = true;
  // Streams of the program's own; the driver's legacy stream would join the contexts of one device
  // that the client keeps apart.
  st.handle = CU_STREAM_LEGACY;
  s_.contexts.put(id, c);
  s_.streams.put(legacy, st);
  s_.reply(reply, CUDA_SUCCESS);
}

// The client's context ends; the device's primary one, which it stands for, lives as long as the
// session.
void Executor::destroy_context(uint32_t id) {
  for (auto& [number, st] : s_.streams)
    if (st.context == id && st.last > st.marked) mark(st, st.last);
  s_.streams.erase_if([&](auto& entry) {
    if (entry.second.context != id) return false;
    if (!entry.second.legacy) s_.cu.cuStreamDestroy(entry.second.handle);
    queues_.forget(entry.first);
    return true;
  });
  std::erase_if(s_.events, [&](auto& e) { return e.second.context == id; });
  if (ContextState* c = s_.context(id))
    for (CUevent e : c->idle_events) s_.cu.cuEventDestroy(e);
  s_.contexts.erase(id);
}

void Executor::create_stream(const Record& r) {
  wire::Decoder in = r.decoder();
  StreamState st;
  st.id = in.get<uint32_t>();
  uint32_t flags = in.get<uint32_t>();
  int32_t priority = in.get<int32_t>();
  if (!in.ok() || st.id < wire::kFirstStream || s_.streams.size() >= wire::kMaxObjects) {
    malformed_ = true;
    return;
  }
  st.context = r.head.context;
  st.blocking = !(flags & CU_STREAM_NON_BLOCKING);
  check(s_.cu.cuStreamCreateWithPriority(&st.handle, flags, priority), r.position);
  s_.streams.put(st.id, st);
}

CUevent Session::event_named(uint32_t id) {
  auto it = events.find(id);
  if (it == events.end()) return nullptr;
  EventState& e = it->second;
  if (!e.current) {
    e.current = std::make_shared<RealEvent>();
    e.current->cu = &cu;
    cu.cuEventCreate(&e.current->handle, e.flags);
  }
  e.in_graph = true;
  return e.current->handle;
}

void Executor::elapsed(wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto a = s_.events.find(in.get<uint32_t>()), b = s_.events.find(in.get<uint32_t>());
  if (a == s_.events.end() || b == s_.events.end() || !a->second.current || !b->second.current)
    return s_.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  float ms = 0;
  CUresult r = s_.cu.cuEventElapsedTime(&ms, a->second.current->handle, b->second.current->handle);
  if (r == CUDA_ERROR_NOT_READY) {  // their marks are done, they are next
    s_.cu.cuEventSynchronize(a->second.current->handle);
    s_.cu.cuEventSynchronize(b->second.current->handle);
    r = s_.cu.cuEventElapsedTime(&ms, a->second.current->handle, b->second.current->handle);
  }
  s_.reply(reply, r, std::string((const char*)&ms, sizeof ms));
}

// An event that a graph records: no mark stands for it. While something waits in a queue of ours,
// its launch may.
void Executor::query_event(wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto it = s_.events.find(in.get<uint32_t>());
  if (it == s_.events.end() || !it->second.current)
    return s_.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  s_.reply(reply,
           queues_.idle() ? s_.cu.cuEventQuery(it->second.current->handle) : CUDA_ERROR_NOT_READY);
}

// ---- completion ----
// The legacy stream waits for the blocking ones unasked: what it waited for is marked before it.
void Executor::mark(StreamState& st, uint64_t position, Mark m) {
  if (st.legacy &&
      std::any_of(dirty_.begin(), dirty_.end(), [&](uint32_t id) { return id != st.id; })) {
    mark_dirty(&st);
    use_context(st.context);
  }
  put_mark(st, position, std::move(m));
}

void Executor::put_mark(StreamState& st, uint64_t position, Mark m) {
  ContextState* c = s_.context(st.context);
  if (!c) return completions_.drop(m);
  if (c->idle_events.empty()) c->idle_events = completions_.recycled(st.context);
  if (c->idle_events.empty()) {
    CUevent e = nullptr;
    if (CUresult r = s_.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC))
      check(r, position);
    else
      c->idle_events.push_back(e);
  }
  if (!c->idle_events.empty()) {
    m.event = c->idle_events.back();
    c->idle_events.pop_back();
    check(s_.cu.cuEventRecord(m.event, st.handle), position);
  }
  m.context = st.context;
  m.stream = st.id;
  m.position = position;
  st.marked = std::max(st.marked, position);
  completions_.add(std::move(m));
}

// And they for it: its mark comes before their work. Behind that work it would wait for all of it.
void Executor::mark_legacy() {
  for (uint32_t id : dirty_)
    if (StreamState* st = s_.stream(id);
        st && st->legacy && st->last > st->marked && !st->capturing && !queues_.held(id)) {
      use_context(st->context);
      put_mark(*st, st->last, {});
    }
  legacy_dirty_ = false;
}

// The ring ran dry, or somebody may learn of something later: whatever is not yet marked gets its
// mark now, the oldest first.
void Executor::mark_dirty(const StreamState* except) {
  auto last = [&](uint32_t id) {
    StreamState* st = s_.stream(id);
    return st ? st->last : 0;
  };
  std::sort(dirty_.begin(), dirty_.end(),
            [&](uint32_t a, uint32_t b) { return last(a) < last(b); });
  for (uint32_t id : dirty_) {
    StreamState* st = s_.stream(id);
    if (!st || st == except || st->last <= st->marked || st->capturing || queues_.held(id))
      continue;
    use_context(st->context);
    put_mark(*st, st->last, {});
  }
  dirty_.clear();
  legacy_dirty_ = false;
}

}  // namespace busbar::server
