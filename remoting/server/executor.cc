#include "server/executor.h"

#include <memory>
#include <thread>

#include "server/kernel_output.h"
#include "server/operations.h"
#include "server/partition_sizes.h"
#include "server/submit.h"

namespace busbar::server {

namespace {
constexpr size_t kReceiveBytes = 256 << 10;
constexpr size_t kCompactBytes = 1 << 20;
constexpr int kReceiveMs = 1000;
constexpr int kStallMs = 1;        // while work may wait for work that has no turn
constexpr int kFullPauseMs = 5;    // while held records fill the memory for them
constexpr int kFarewellMs = 1000;  // as long as the client waits for the end of its session
constexpr int kSpinRounds = 4000;
// On a small machine the client may need this core.
const int kYieldEvery = std::thread::hardware_concurrency() < 4 ? 32 : 256;

Ending client_gone() {
  return {control::SessionEnd::client_gone, "the client is gone"};
}
}  // namespace

Executor::Executor(Session& s)
    : s_(s),
      queues_(s.bulk,
              [this](Record& r) {
                Outcome outcome = submit(pipeline_, r);
                malformed_ |= outcome == Outcome::malformed;
                return outcome;
              }),
      order_(s, queues_),
      completions_(s),
      fences_(s, queues_, completions_),
      workers_(s.cu),
      pipeline_{s, queues_, fences_, workers_, {}, false, {}, {}, false},
      suspension_(pipeline_) {}

void Executor::wake() {
  s_.link.wake();
}

void Executor::suspend(uint32_t patience_ms, uint64_t host_bytes) {
  suspension_.request(patience_ms, host_bytes);
  wake();
}

void Executor::resume() {
  suspension_.request_resumption();
  wake();
}

void Executor::advance() {
  make_charged_contexts(pipeline_);
  s_.shared_events.complete_abandoned(s_.account);
  if (s_.sizes_changed.exchange(false)) announce_partition_sizes(s_);
  if (!suspension_.active()) ask_for_unused_memory(s_);  // the answer would resume the session
  do {
    progress_ = completions_.progress();
    end_holds();
    if (s_.turns) s_.turns->begin_pass();
    pipeline_.keeps_work = suspension_.keeps_work();
    if (!suspension_.has_drained()) queues_.run_ready();
    fences_.record_all();
  } while (completions_.poll() && !queues_.idle());
  if (s_.turns) s_.turns->end_pass();
  holds_too_much_ |= !limit_held_records();
}

// Tells the client to pause while too many bytes of records wait here, and to go on later. Reading
// no more would keep back the records that end the wait: they often belong to another stream.
// Returns false if the client does not obey.
bool Executor::limit_held_records() {
  auto tell_client = [this](uint32_t stream, bool paused) {
    uint32_t body[2] = {paused, stream};
    s_.link.send(wire::Frame::pause, body, sizeof body);
  };
  for (auto& change : queues_.take_pause_changes()) tell_client(change.stream, change.paused);
  // NOLINTNEXTLINE(custom-unchecked-sum): bytes in memory
  uint64_t held = queues_.parked_bytes() + s_.posted_bytes;
  bool pause_all = held > (s_.all_paused ? wire::kPauseAllBytes / 2 : wire::kPauseAllBytes);
  if (pause_all != s_.all_paused) {
    s_.all_paused = pause_all;
    tell_client(wire::kAllStreams, pause_all);
    if (pause_all) wake();  // posted work that ended just before does not, so count once more
  }
  return held <= wire::kMaxHeldBytes;
}

bool Executor::awaits_completions() const {
  return !queues_.idle() || (s_.turns && s_.turns->is_draining()) || suspension_.is_draining();
}

// Lets the background thread publish. Returns true if a parked record may run already.
bool Executor::prepare_sleep() {
  completions_.watch_in_background(awaits_completions());
  return awaits_completions() && completions_.progress() != progress_;
}

void Executor::Input::discard_used() {
  if (empty())
    bytes.clear();
  else if (used > kCompactBytes)
    bytes.erase(bytes.begin(), bytes.begin() + (ptrdiff_t)used);
  else
    return;
  used = 0;
}

Ending Executor::run() {
  Input input;
  while (!pipeline_.leaving) {
    if (!receive(input)) return client_gone();
    if (suspension_.active() && holds_records(input)) {
      if (!wait_in_suspension(input)) return client_gone();
      continue;
    }
    if (!process(input)) return malformed("malformed record at");
    advance();
    if (malformed_) return malformed("a parked record is malformed before");
    if (!input.empty()) {  // an unfinished record
      int wait_ms = prepare_sleep() ? 0 : patience_ms();
      if (!s_.link.receive(input.bytes, kReceiveBytes, wait_ms)) return client_gone();
    }
  }
  fences_.record_all();
  flush_kernel_output();
  workers_.synchronize.finish(kFarewellMs);
  return {control::SessionEnd::closed, "the client closed the session"};
}

int Executor::patience_ms() const {
  return s_.turns && s_.turns->may_stall() ? kStallMs : kReceiveMs;
}

Ending Executor::malformed(const std::string& what) const {
  return {control::SessionEnd::malformed, what + " " + std::to_string(reader_.position())};
}

// Waits for bytes if there are none. False when the client is gone.
bool Executor::receive(Input& input) {
  if (!input.empty()) return suspension_.active() || s_.link.receive(input.bytes, kReceiveBytes, 0);
  if (poll_link(input.bytes)) return true;
  if (prepare_sleep()) return true;
  if (!s_.link.receive(input.bytes, kReceiveBytes, suspension_.wait_ms(patience_ms())))
    return false;
  if (input.bytes.empty()) flush_kernel_output();
  return true;
}

// True if the records wait, because the session is suspended. A client that ends a suspended
// session needs no memory.
bool Executor::holds_records(const Input& input) {
  advance();
  wire::RecordHeader first;
  bool ends = wire::next_record(input.bytes.data() + input.used, input.bytes.size() - input.used,
                                first) > 0 &&
              first.opcode == (uint16_t)wire::Op::end_session;
  return !(ends && suspension_.is_suspended()) &&
         suspension_.holds(!input.empty() || !queues_.idle());
}

// Takes no more records than the client may have under way, and waits for a change. False when the
// client is gone.
bool Executor::wait_in_suspension(Input& input) {
  if (input.empty()) return s_.link.alive();  // receive() waits
  int wait_ms = prepare_sleep() ? 0 : suspension_.wait_ms(kReceiveMs);
  if (input.bytes.size() < wire::kMaxHeldBytes)
    return s_.link.receive(input.bytes, kReceiveBytes, wait_ms);
  suspension_.wait_for_change(kFullPauseMs);
  return s_.link.alive();
}

bool Executor::process(Input& input) {
  uint64_t used = 0;
  if (!process(input.bytes.data() + input.used, input.bytes.size() - input.used, used))
    return false;
  input.used += used;
  input.discard_used();
  return true;
}

// Busy-waits for records and completions on shared memory, because a wake-up costs more than most
// of what the executor waits for. Not while work of a turn runs for which records wait: the GPU has
// more of it meanwhile. Returns true when records came or parked ones may run.
bool Executor::poll_link(std::vector<uint8_t>& buffer) {
  if (!s_.link.shared() || (s_.turns && s_.turns->may_stall())) return false;
  for (int i = 0; i < kSpinRounds && s_.link.alive(); ++i) {
    s_.link.receive(buffer, kReceiveBytes, 0);
    if (!buffer.empty()) return true;
    if (completions_.poll() && awaits_completions()) return true;
    if (s_.turns && s_.turns->take_changed()) return true;
    if (has_charged_context(pipeline_)) return true;
    __builtin_ia32_pause();
    if (i % kYieldEvery == kYieldEvery - 1) std::this_thread::yield();
  }
  return false;
}

// Before records are read: those of a client that knows of the end come behind it.
void Executor::end_holds() {
  for (uint32_t stream : completions_.take_ended_holds()) queues_.resume(stream);
}

bool Executor::process(const uint8_t* p, uint64_t n, uint64_t& used) {
  used = 0;
  end_holds();
  while (used < n && !pipeline_.leaving && s_.link.has_room()) {
    Record r;
    ReadResult result = reader_.next(p + used, n - used, r);
    if (result == ReadResult::malformed) return false;
    if (result == ReadResult::incomplete) break;
    used += r.head.bytes;
    if (holds_too_much_ || !handle_whole(r) || malformed_) return false;
  }
  return true;
}

// Handles a record with its whole payload, of which the first bytes may have come in parts.
bool Executor::handle_whole(Record& r) {
  if (!(r.head.flags & wire::kInParts)) return handle(r);
  if (r.head.opcode == (uint16_t)wire::Op::part) return false;  // it would copy 32 MiB each time
  std::vector<uint8_t> payload;
  return pipeline_.parts.complete(r, payload) && handle(r);
}

bool Executor::handle(Record& r) {
  s_.use_context(r.head.context);
  switch (r.operation->order) {
    case wire::Order::stream: return submit_or_park(r, order_.admit(r));
    case wire::Order::barrier: return submit_or_park(r, order_.admit_barrier(r));
    case wire::Order::immediate: return run_immediate(r);
  }
  return false;
}

bool Executor::submit_or_park(Record& r, Admission admission) {
  if (admission == Admission::run) {
    Outcome outcome = submit(pipeline_, r);
    if (outcome != Outcome::waits) return outcome == Outcome::done;
    admission = order_.park(r);
  }
  return admission == Admission::parked && limit_held_records();
}

bool Executor::run_immediate(Record& r) {
  const Operation& operation = *r.operation;
  if (operation.exec_at)
    if (Admission admission = order_.admit_change(r); admission != Admission::run)
      return admission == Admission::parked && limit_held_records();
  if (operation.pipeline) return operation.pipeline(pipeline_, r);
  if (operation.stream) {
    StreamState* st = s_.stream(r.head.stream);
    return st && operation.stream(pipeline_, r, *st) == Outcome::done;
  }
  run_in_session(pipeline_, r);
  return operation.thread == wire::Thread::executor || limit_held_records();
}

// The driver writes what kernels printed when the context is synchronised. Only while nothing is
// pending: a running kernel may never end.
void Executor::flush_kernel_output() {
  bool printed_nothing = s_.launches == launches_flushed_;
  if (!s_.output || printed_nothing || s_.active_captures || !completions_.idle()) return;
  launches_flushed_ = s_.launches;
  for (auto& [id, c] : s_.contexts)
    if (c.handle) workers_.synchronize.post(c.handle, [this] { s_.cu.cuCtxSynchronize(); });
  workers_.synchronize.post(nullptr, [this] { s_.output->flush(); });
}

}  // namespace busbar::server
