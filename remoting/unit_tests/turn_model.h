// A node in simulated time: sessions with their gates and stream queues, the arbiters of the
// launcher, and GPUs whose drivers slice their time between sessions. Only the GPUs, the programs
// and the delays of messages are models.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/messages.h"
#include "launcher/arbiters.h"
#include "server/stream_queue.h"
#include "server/turns.h"
#include "unit_tests/turn_model_gpu.h"

namespace busbar::model {

// Faults that tests plant.
enum class Planted {
  none,
  no_carry,       // a turn that overruns is not paid for
  count_of_work,  // the gate bounds the number of records, not their time
  counts_waits,   // the gate counts waits as work
};

// ---- a session ----
// Streams of the first GPU of a session have numbers below, those of the second one from it on.
constexpr uint32_t kSecondGpu = 100;

// A record of a program.
struct Step {
  Item::Kind kind = Item::work;
  uint32_t stream = 16;
  uint32_t flag = 0;
  Nanoseconds length = 0;  // of work on the GPU, and of a host function in the program
  uint64_t key = 1;
  uint64_t position = 0;
};

class Session {
 public:
  static constexpr Nanoseconds kNotice = 20 * kMicrosecond;  // until the server looks
  static constexpr Nanoseconds kTick = kMillisecond;
  static constexpr uint32_t kRecordsInDriver = 256;

  // `other`: a session of the same allocation, if there is one.
  Session(Events& events, std::vector<Gpu*> gpus, launcher::Arbiters& arbiters,
          const launcher::Account& account, Planted planted, Session* other = nullptr)
      : planted_(planted),
        events_(events),
        gpus_(std::move(gpus)),
        socket_(arbiters.connect(account)),
        page_((const control::TurnPage*)control::receive_page(socket_, sizeof *page_)) {
    add_processes(other);
    for (size_t p = 0; p < gates_.size(); ++p) gates_[p].use(&page_->word[p]);
    tick();
  }
  ~Session() {
    close(socket_);
    munmap((void*)page_, sizeof *page_);
  }
  Session(const Session&) = delete;

  // Calls the program whenever work has ended, so that it submits more.
  void start(std::function<void(Session&)> program) {
    program_ = std::move(program);
    wake();
  }
  // The program ends, and what it has submitted.
  void end() {
    program_ = nullptr;
    has_ended_ = notified_ = true;
    for (Gpu::Process* process : processes_) process->streams.clear();
    shutdown(socket_, SHUT_RDWR);
  }
  bool take_notified() { return std::exchange(notified_, false); }
  uint64_t unfinished = 0;  // records
  const std::vector<Gpu*>& gpus() const { return gpus_; }
  Gpu::Process& process(size_t gpu = 0) { return *processes_[gpu]; }

  void submit(Step step) {
    step.position = ++newest_position_;
    server::StreamState& st = stream(step.stream);
    server::Dependencies dependencies;
    RecordedEvent& event = recorded_events_[step.flag];
    if (step.kind == Item::event) event.number = ++newest_event_;
    if (step.kind == Item::wait_event) {
      dependencies.queue = event.stream;
      dependencies.sequence = event.sequence;
    }
    if (step.kind == Item::event || step.kind == Item::wait_event) step.flag = event.number;
    server::Record r;
    r.head = {sizeof r.head + sizeof step, 0, 0, 1, step.stream};
    r.payload = (const uint8_t*)&step;
    uint64_t sequence = queues_.park(st, r, dependencies);
    if (step.kind == Item::event) event = {step.stream, sequence, event.number};
    ++unfinished;
    wake();
  }
  // The arbiters have run.
  void look_at_page() {
    bool changed = false;
    for (size_t p = 0; p < gates_.size(); ++p) {
      uint32_t word = page_->word[p];
      changed |= word != std::exchange(seen_words_[p], word);
    }
    if (!changed) return;
    drain_socket();
    wake();
  }
  void wake() {
    if (has_ended_ || std::exchange(is_awake_, true)) return;
    events_.after(kNotice, [this] {
      is_awake_ = false;
      pass();
    });
  }
  void wake_after(Nanoseconds delay) {
    events_.after(delay, [this] { wake(); });
  }
  // Says so to the arbiters, whether or not it is true.
  void notify(control::TurnOp op, bool wants = false, uint32_t turns_ahead = 0) {
    uint32_t turn = control::turn_of_word(page_->word[0]) + turns_ahead;
    send(this, {(uint32_t)op, 0, turn, wants});
    drain_socket();
  }

 private:
  void add_processes(Session* other) {
    auto flags = other ? other->process().flags : std::make_shared<std::map<uint32_t, bool>>();
    auto events = std::make_shared<std::map<uint32_t, bool>>(std::map<uint32_t, bool>{{0, true}});
    for (Gpu* gpu : gpus_) {
      processes_.push_back(&gpu->add_process(flags, events));
      gates_.emplace_back((uint32_t)gates_.size(), send, this, [] { return g_now; });
      watches_.emplace_back();
      seen_words_.push_back(0);
    }
  }
  server::TurnGate& gate_of(const server::StreamState& st) { return gates_[st.id / kSecondGpu]; }
  static bool send(void* session, const control::TurnNotice& notice) {
    auto& self = *(Session*)session;
    self.notified_ = true;
    return ::send(self.socket_, &notice, sizeof notice, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           sizeof notice;
  }
  server::StreamState& stream(uint32_t id) {
    server::StreamState& st = streams_[id];
    st.id = id;
    st.context = 1;
    st.blocking = false;
    return st;
  }
  void drain_socket() {
    uint8_t message;
    while (recv(socket_, &message, sizeof message, MSG_DONTWAIT) > 0) {
    }
  }
  void pass() {
    if (has_ended_) return;
    if (program_) program_(*this);
    for (auto& gate : gates_) gate.begin_pass();
    queues_.run_ready();
    for (auto& [id, st] : streams_) record_fence(st);
    for (auto& gate : gates_) gate.end_pass();
    Gpu::settle(gpus_);
  }
  // Does what the thread of the turns does in each of its periods.
  void tick() {
    events_.after(kTick, [this] {
      if (has_ended_) return;
      drain_socket();
      for (size_t p = 0; p < gates_.size(); ++p) {
        server::TurnGate& gate = gates_[p];
        if ((gate.has_turn() && watches_[p].tick(gate)) || gate.may_stall()) wake();
      }
      tick();
    });
  }
  void record_fence(server::StreamState& st) {
    if (!st.unfenced.has_work()) return;
    server::TurnGate& gate = gate_of(st);
    auto work = gate.add_fence(st.unfenced);
    st.newest_fence = work.number;
    st.use->backlog.add_fence(work.records);
    push(st.id, {Item::fence, 0, 0, 0, [this, &gate, work, use = st.use] {
                   events_.after(kNotice, [this, &gate, work, use] {
                     use->ended_fence = work.number;
                     gate.complete(work, use->backlog);
                     pass();
                   });
                 }});
  }
  // The records behind a wait wait until it has ended, those behind a host function until the
  // program has run it.
  server::Outcome hold(const server::StreamState& st, const Step& step) {
    bool is_host = step.kind == Item::host;
    using Hold = server::StreamQueues::Hold;
    queues_.hold(st, is_host ? Hold::host_function : Hold::wait);
    auto resume = [this, id = st.id] {
      --unfinished;
      queues_.resume(id);
      wake();
    };
    push(st.id, {step.kind, step.flag, 0, 0, [this, is_host, resume, length = step.length] {
                   is_host ? events_.after(length, resume) : resume();
                 }});
    return server::Outcome::done;
  }
  bool needs_fence(const server::StreamState& st) {
    server::TurnGate& gate = gate_of(st);
    return gate.is_open() ? st.use->backlog.needs_fence(st.unfenced.records)
                          : gate.needs_fence(st.unfenced);
  }
  std::deque<Item>& items(uint32_t stream) {
    return processes_[stream / kSecondGpu]->streams[stream];
  }
  void push(uint32_t stream, Item item) { items(stream).push_back(std::move(item)); }
  server::Outcome run(server::Record& r) {
    Step step;
    std::memcpy(&step, r.payload, sizeof step);
    server::StreamState& st = stream(step.stream);
    server::TurnGate& gate = gate_of(st);
    if (items(st.id).size() > kRecordsInDriver) return server::Outcome::waits;
    bool counts_waits = planted_ == Planted::counts_waits;
    if (step.kind == Item::host) return hold(st, step);
    if (step.kind == Item::wait && !gate.is_open() && !counts_waits) return hold(st, step);
    bool counts = step.kind == Item::work || (step.kind == Item::wait && counts_waits);
    bool has_key = !gate.is_open() && planted_ != Planted::count_of_work;
    uint64_t key = has_key ? step.key : 0;
    server::WorkRecord record{key, step.position, st.newest_fence, st.use->ended_fence,
                              st.use->backlog.has_room(st.unfenced.records)};
    if (counts && !gate.may_submit(record)) return server::Outcome::waits;
    if (counts) gate.add(st.unfenced, key);
    push(st.id, {step.kind, step.flag, step.kind == Item::work ? step.length : 0, step.key, [this] {
                   --unfinished;
                   wake();
                 }});
    if (counts && needs_fence(st)) record_fence(st);
    return server::Outcome::done;
  }

  const Planted planted_;
  Events& events_;
  const std::vector<Gpu*> gpus_;
  // Of each GPU:
  std::vector<Gpu::Process*> processes_;
  std::deque<server::TurnGate> gates_;
  std::deque<server::GateWatch> watches_;
  std::vector<uint32_t> seen_words_;

  const int socket_;
  const control::TurnPage* const page_;
  struct RecordedEvent {
    uint32_t stream = 0;
    uint64_t sequence = 0;
    uint32_t number = 0;  // 0: it was not recorded; such an event has completed
  };
  std::map<uint32_t, RecordedEvent> recorded_events_;  // by event: the newest record of each
  uint32_t newest_event_ = 0;
  uint64_t newest_position_ = 0;
  bool is_awake_ = false, notified_ = false, has_ended_ = false;
  std::function<void(Session&)> program_;
  server::Driver cu_{};
  server::PinnedPool pinned_{cu_};
  server::BulkTransfers bulk_{pinned_, [] {}};
  std::map<uint32_t, server::StreamState> streams_;
  server::StreamQueues queues_{bulk_, [this](server::Record& r) { return run(r); }};
};

// ---- the node ----
class Node {
 public:
  static constexpr uint32_t kMaxLateSeconds = 5;

  explicit Node(Planted planted = Planted::none, size_t gpus = 1) : planted_(planted) {
    g_now = kSecond;
    for (size_t i = 0; i < gpus; ++i) gpus_.push_back(&owned_.emplace_back());
  }

  // Adds an allocation, on the GPUs with these numbers, with one session.
  Session& add(uint32_t percent, control::ComputeMode mode = control::ComputeMode::shared,
               const std::vector<size_t>& numbers = {0}) {
    std::vector<Gpu*> gpus;
    for (size_t number : numbers) gpus.push_back(gpus_[number]);
    size_t number = sessions_.size();
    grant(number, percent, mode, gpus);
    return connect(name_of(number), gpus, nullptr);
  }
  // Changes the share of the allocation of a session.
  void resize(const Session& session, uint32_t percent) {
    grant(number_of(session), percent, control::ComputeMode::shared, session.gpus());
  }
  // Ends a session, whose allocation is revoked.
  void remove(Session& session) {
    session.end();
    std::string revoked = name_of(number_of(session));
    arbiters_.step(0);
    arbiters_.keep([&](const std::string& id) { return id != revoked; });
  }
  // Adds a session to the newest allocation. Both have the same flags.
  Session& add_beside(Session& other) { return connect(newest_, other.gpus(), &other); }
  void run_for(Nanoseconds duration) {
    Nanoseconds end = g_now + duration;
    while (g_now < end) {
      Nanoseconds deadline = arbiters_.next_deadline();
      if (deadline != launcher::Arbiter::kNever) deadline *= kMicrosecond;
      Nanoseconds time = std::min({events.next(), std::max(deadline, g_now + 1), end});
      for (Gpu* gpu : gpus_) time = std::min(time, gpu->next());
      run_gpus_until(time);
      events.run_due();
      bool notified = false;
      for (auto& session : sessions_) notified |= session->take_notified();
      if (!notified && time < deadline) continue;
      arbiters_.step(0);
      for (auto& session : sessions_) session->look_at_page();
    }
  }
  // Runs until `holds`, at most so long. Returns whether it does.
  bool run_until(const std::function<bool()>& holds, Nanoseconds most) {
    for (Nanoseconds end = g_now + most; g_now < end && !holds();) run_for(kMillisecond);
    return holds();
  }
  // True if the launcher would end the session: its work is late for too long.
  bool is_too_late(const Session& session) {
    for (auto& [id, seconds] : arbiters_.too_late())
      if (sessions_[id[0]].get() == &session) return true;
    return false;
  }
  Events events;
  Gpu& gpu() { return *gpus_.front(); }

 private:
  void run_gpus_until(Nanoseconds time) {
    for (Gpu* gpu : gpus_) gpu->run_for(time - g_now);
    g_now = time;
    Gpu::settle(gpus_);
    for (Gpu* gpu : gpus_) gpu->end_slice();
  }
  static std::string name_of(size_t allocation) {
    return "allocation " + std::to_string(allocation);
  }
  size_t number_of(const Session& session) const {
    auto it = std::ranges::find(sessions_, &session, &std::unique_ptr<Session>::get);
    return (size_t)(it - sessions_.begin());
  }
  void grant(size_t number, uint32_t percent, control::ComputeMode mode,
             const std::vector<Gpu*>& gpus) {
    control::Allocation a{};
    for (Gpu* gpu : gpus) {
      auto& partition = a.partition[a.partitions++];
      partition.gpu_uuid[0] = (uint8_t)(std::ranges::find(gpus_, gpu) - gpus_.begin());
      partition.compute_percent = percent;
    }
    a.compute_mode = (uint32_t)mode;
    a.max_late_seconds = kMaxLateSeconds;
    a.tenant[0] = (uint8_t)(number + 1);
    arbiters_.set_allocation(name_of(number), a);
  }
  Session& connect(const std::string& allocation, const std::vector<Gpu*>& gpus, Session* other) {
    newest_ = allocation;
    launcher::SessionId id{};
    id[0] = (uint8_t)sessions_.size();
    launcher::Account account{allocation, id};
    sessions_.push_back(
        std::make_unique<Session>(events, gpus, arbiters_, account, planted_, other));
    return *sessions_.back();
  }
  static launcher::Microseconds now() { return g_now / kMicrosecond; }
  const Planted planted_;
  std::deque<Gpu> owned_;
  std::vector<Gpu*> gpus_;
  launcher::Arbiters arbiters_{now, planted_ == Planted::no_carry ? launcher::Arbiter::Carry::no
                                                                  : launcher::Arbiter::Carry::yes};
  std::string newest_;  // allocation
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace busbar::model
