// A node in simulated time: sessions with their gates and stream queues, the arbiters of the
// launcher, and one GPU whose driver slices its time between sessions. Only the GPU, the programs
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

namespace busbar::model {

using Nanoseconds = int64_t;
constexpr Nanoseconds kMicrosecond = 1000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;
constexpr Nanoseconds kNever = INT64_MAX;

// ---- time ----
inline Nanoseconds g_now = 0;

class Events {
 public:
  void at(Nanoseconds time, std::function<void()> event) {
    events_.emplace(time, std::move(event));
  }
  void after(Nanoseconds delay, std::function<void()> event) {
    at(g_now + delay, std::move(event));
  }
  Nanoseconds next() const { return events_.empty() ? kNever : events_.begin()->first; }
  void run_due() {
    while (next() <= g_now) {
      auto event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
  }

 private:
  std::multimap<Nanoseconds, std::function<void()>> events_;
};

// Faults that tests plant.
enum class Planted {
  none,
  no_carry,       // a turn that overruns is not paid for
  count_of_work,  // the gate bounds the number of records, not their time
  counts_waits,   // the gate counts waits as work
};

// ---- the GPU ----
// An item of a stream, submitted for a record or by the server itself.
struct Item {
  enum Kind : uint32_t { work, wait, write, event, wait_event, host, fence } kind = work;
  uint32_t flag = 0;     // of those that wait or write: a stream waits until the flag is set
  Nanoseconds left = 0;  // of work
  uint64_t key = 0;      // of work: what the server sees of it
  std::function<void()> ended;
};

class Gpu {
 public:
  static constexpr Nanoseconds kSlice = 2 * kMillisecond;
  struct Process {
    uint32_t parallel = 1;  // kernels of different streams that run side by side
    std::map<uint32_t, std::deque<Item>> streams;
    std::shared_ptr<std::map<uint32_t, bool>> flags;  // of all processes of an allocation
    std::map<uint32_t, bool> events;                  // those that have completed
    Nanoseconds executed = 0;
  };

  // A process that shares the flags of another one, if there is one.
  Process& add_process(const Process* other = nullptr) {
    Process& added = *processes_.emplace_back(std::make_unique<Process>());
    added.events[0] = true;
    added.flags = other ? other->flags : std::make_shared<std::map<uint32_t, bool>>();
    return added;
  }
  Nanoseconds idle() const { return idle_; }
  Nanoseconds next() {
    auto running = choose();
    Nanoseconds first = kNever;
    for (Item* item : running) first = std::min(first, item->left);
    if (running.empty()) return kNever;
    return g_now +
           (is_contended() ? std::min(first, std::max<Nanoseconds>(slice_left_, 1)) : first);
  }
  void run_until(Nanoseconds time) {
    Nanoseconds passed = time - g_now;
    auto running = choose();
    if (running.empty()) idle_ += passed;
    if (!running.empty()) processes_[current_]->executed += passed;
    for (Item* item : running) item->left -= passed;
    slice_left_ -= passed;
    g_now = time;
    settle();
    if (slice_left_ <= 0 && is_contended()) take_turns();
  }
  // Ends what takes no time.
  void settle() {
    for (bool ended = true; ended;) {
      ended = false;
      for (auto& process : processes_) ended |= end_one(*process);
    }
  }

 private:
  static bool is_over(Process& p, const Item& item) {
    if (item.kind == Item::wait) return (*p.flags)[item.flag];
    if (item.kind == Item::wait_event) return p.events[item.flag];
    return item.left <= 0;
  }
  static bool end_one(Process& p) {
    for (auto& [id, items] : p.streams) {
      if (items.empty() || !is_over(p, items.front())) continue;
      Item item = std::move(items.front());
      items.pop_front();
      if (item.kind == Item::write) (*p.flags)[item.flag] = true;
      if (item.kind == Item::event) p.events[item.flag] = true;
      if (item.ended) item.ended();
      return true;
    }
    return false;
  }
  static bool is_runnable(const std::pair<const uint32_t, std::deque<Item>>& stream) {
    return !stream.second.empty() && stream.second.front().kind == Item::work;
  }
  static std::vector<Item*> runnable(Process& p) {
    std::vector<Item*> found;
    for (auto& stream : p.streams)
      if (is_runnable(stream) && found.size() < p.parallel) found.push_back(&stream.second.front());
    return found;
  }
  bool is_contended() {
    return std::ranges::count_if(processes_, [](auto& p) {
             return std::ranges::any_of(p->streams, is_runnable);
           }) > 1;
  }
  void take_turns() {
    current_ = (current_ + 1) % processes_.size();
    slice_left_ = kSlice;
  }
  std::vector<Item*> choose() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      auto running = runnable(*processes_[current_]);
      if (!running.empty()) return running;
      take_turns();
    }
    return {};
  }
  std::vector<std::unique_ptr<Process>> processes_;
  size_t current_ = 0;
  Nanoseconds slice_left_ = kSlice, idle_ = 0;
};

// ---- a session ----
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
  Session(Events& events, Gpu& gpu, launcher::Arbiters& arbiters, const launcher::Account& account,
          Planted planted, Session* other = nullptr)
      : planted_(planted),
        events_(events),
        gpu_(gpu),
        process_(gpu.add_process(other ? &other->process_ : nullptr)),
        socket_(arbiters.connect(account)),
        page_((const control::TurnPage*)control::receive_page(socket_, sizeof *page_)) {
    gate.use(&page_->word[0]);
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
  bool take_notified() { return std::exchange(notified_, false); }
  uint64_t unfinished = 0;  // records
  Gpu::Process& process() { return process_; }

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
    uint32_t word = page_->word[0];
    if (word == std::exchange(seen_word_, word)) return;
    drain_socket();
    wake();
  }
  void wake() {
    if (std::exchange(is_awake_, true)) return;
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
  server::TurnGate gate{0, send, this, [] { return g_now; }};

 private:
  static bool send(void* session, const control::TurnNotice& notice) {
    auto& self = *(Session*)session;
    self.notified_ = true;
    return ::send(self.socket_, &notice, sizeof notice, MSG_DONTWAIT) == sizeof notice;
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
    if (program_) program_(*this);
    gate.begin_pass();
    queues_.run_ready();
    for (auto& [id, st] : streams_) record_fence(st);
    gate.end_pass();
    gpu_.settle();
  }
  // Does what the thread of the turns does in each of its periods.
  void tick() {
    events_.after(kTick, [this] {
      drain_socket();
      if ((gate.has_turn() && watch_.tick(gate)) || gate.may_stall()) wake();
      tick();
    });
  }
  void record_fence(server::StreamState& st) {
    if (!st.unfenced.has_work()) return;
    auto work = gate.add_fence(st.unfenced);
    st.newest_fence = work.number;
    st.use->backlog.add_fence(work.records);
    push(st.id, {Item::fence, 0, 0, 0, [this, work, use = st.use] {
                   events_.after(kNotice, [this, work, use] {
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
  bool needs_fence(const server::StreamState& st) const {
    return gate.is_open() ? st.use->backlog.needs_fence(st.unfenced.records)
                          : gate.needs_fence(st.unfenced);
  }
  void push(uint32_t stream, Item item) { process_.streams[stream].push_back(std::move(item)); }
  server::Outcome run(server::Record& r) {
    Step step;
    std::memcpy(&step, r.payload, sizeof step);
    server::StreamState& st = stream(step.stream);
    if (process_.streams[st.id].size() > kRecordsInDriver) return server::Outcome::waits;
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
  Gpu& gpu_;
  Gpu::Process& process_;
  const int socket_;
  const control::TurnPage* const page_;
  uint32_t seen_word_ = 0;
  struct RecordedEvent {
    uint32_t stream = 0;
    uint64_t sequence = 0;
    uint32_t number = 0;  // 0: it was not recorded; such an event has completed
  };
  std::map<uint32_t, RecordedEvent> recorded_events_;  // by event: the newest record of each
  uint32_t newest_event_ = 0;
  uint64_t newest_position_ = 0;
  bool is_awake_ = false, notified_ = false;
  std::function<void(Session&)> program_;
  server::GateWatch watch_;
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

  explicit Node(Planted planted = Planted::none) : planted_(planted) { g_now = kSecond; }

  // Adds an allocation with one session.
  Session& add(uint32_t percent, control::ComputeMode mode = control::ComputeMode::shared) {
    control::Allocation a{};
    a.partitions = 1;
    a.compute_mode = (uint32_t)mode;
    a.partition[0].compute_percent = percent;
    a.max_late_seconds = kMaxLateSeconds;
    a.tenant[0] = (uint8_t)(sessions_.size() + 1);
    std::string id = "allocation " + std::to_string(sessions_.size());
    arbiters_.set_allocation(id, a);
    return connect(id, nullptr);
  }
  // Adds a session to the newest allocation. Both have the same flags.
  Session& add_beside(Session& other) { return connect(newest_, &other); }
  void run_for(Nanoseconds duration) {
    Nanoseconds end = g_now + duration;
    while (g_now < end) {
      Nanoseconds deadline = arbiters_.next_deadline();
      if (deadline != launcher::Arbiter::kNever) deadline *= kMicrosecond;
      Nanoseconds time = std::min({events.next(), gpu.next(), std::max(deadline, g_now + 1), end});
      gpu.run_until(time);
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
  Gpu gpu;

 private:
  Session& connect(const std::string& allocation, Session* other) {
    newest_ = allocation;
    launcher::SessionId id{};
    id[0] = (uint8_t)sessions_.size();
    launcher::Account account{allocation, id};
    sessions_.push_back(
        std::make_unique<Session>(events, gpu, arbiters_, account, planted_, other));
    return *sessions_.back();
  }
  static launcher::Microseconds now() { return g_now / kMicrosecond; }
  const Planted planted_;
  launcher::Arbiters arbiters_{now, planted_ == Planted::no_carry ? launcher::Arbiter::Carry::no
                                                                  : launcher::Arbiter::Carry::yes};
  std::string newest_;  // allocation
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace busbar::model
