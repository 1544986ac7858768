#include "launcher/arbiters.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "control/messages.h"

namespace busbar::launcher {

using control::Enforcement;
using control::TurnState;

namespace {
constexpr int kEvents = 64;
constexpr int kNoticesAtOnce = 4;  // of one session: what it sends beyond that delays no other one
constexpr Microseconds kSecond = 1'000'000;
constexpr Microseconds kBeat = Microseconds(control::kBeatMs) * 1000;
// Longer ones may put the share of a session wrong by a point over 10 s; see ADR 83.
constexpr Microseconds kLongDrain = 100'000 - Arbiter::kTurn;

// True if a turn is one from the first to the newest one. Numbers of turns start again.
bool is_since(uint32_t turn, uint32_t first, uint32_t newest) {
  auto since_first = [first](uint32_t t) {
    return (t - first) % control::kTurnNumbers;
  };
  return since_first(turn) <= since_first(newest);
}
}  // namespace

Arbiters::Arbiters(Clock clock, Arbiter::Carry carry)
    : clock_(clock),
      carry_(carry),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  watch(timer_);
}

bool Arbiters::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Arbiters::set_allocation(const std::string& id, const control::Allocation& allocation) {
  FairLock lock(mutex_);
  auto [it, added] = allocations_.try_emplace(id);
  Allocation& a = it->second;
  if (added) a.id.allocation = ++newest_allocation_;
  a.grant = allocation;
  a.is_granted = true;
  Microseconds now = clock_();
  for (Member* member : a.sessions) join(*member, now);
  tell_sessions();
  arm(now);
}

void Arbiters::keep(const std::function<bool(const std::string&)>& is_granted) {
  FairLock lock(mutex_);
  Microseconds now = clock_();
  for (auto& [id, a] : allocations_) {
    if (is_granted(id)) continue;
    a.is_granted = false;
    for (auto& [uuid, gpu] : gpus_) gpu.arbiter.move_debt(a.id, a.debts(), now);
  }
  std::erase_if(allocations_, [](auto& entry) {
    return !entry.second.is_granted && entry.second.sessions.empty();
  });
}

void Arbiters::find_places(Member& member) {
  Allocation& a = *member.allocation;
  member.partitions = a.grant.partitions;
  a.is_joint |= member.partitions > 1;
  for (uint32_t p = 0; p < member.partitions; ++p) {
    GpuUuid uuid;
    std::copy_n(a.grant.partition[p].gpu_uuid, uuid.size(), uuid.begin());
    Gpu& gpu = gpus_.try_emplace(uuid, carry_).first->second;
    gpu.places[a.id].emplace_back(&member, p);
    if (a.is_joint) gpu.joint.emplace(a.id, &a);
    member.places[p].gpu = &gpu;
  }
}

// Enters a session at the arbiters of its GPUs, or changes its shares there.
void Arbiters::join(Member& member, Microseconds now) {
  if (!member.partitions) find_places(member);
  Allocation& a = *member.allocation;
  for (uint32_t p = 0; p < std::min(member.partitions, a.grant.partitions); ++p) {
    Gpu& gpu = *member.places[p].gpu;
    gpu.changed = true;
    auto mode = (control::ComputeMode)a.grant.compute_mode;
    gpu.arbiter.set_share(a.id, {mode, a.grant.partition[p].compute_percent}, now);
    gpu.received.set_in_turns(!gpu.arbiter.is_open(), now);
    gpu.received.add(a.id, gpu.arbiter.charged(a.id), now);
    update_joint(gpu);  // before settle(): a turn on this GPU alone may be one on several now
    settle(gpu, now);
  }
  update_joint(a);
}

// With the first session of its life: an allocation that has run beside the one that ended does not
// pay for it.
void Arbiters::take_over_debts(Member& member, Microseconds now) {
  Allocation& a = *member.allocation;
  if (std::exchange(a.has_run, true)) return;
  for (uint32_t p = 0; p < member.partitions; ++p)
    member.places[p].gpu->arbiter.move_debt(a.debts(), a.id, now);
}

int Arbiters::connect(const Account& account) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return -1;
  FairLock lock(mutex_);
  if (auto old = sockets_.find(account.session); old != sockets_.end()) forget(old->second);
  auto member = std::make_unique<Member>();
  member->session = account.session;
  member->page = SealedMemory::create("busbar-turns", sizeof(control::TurnPage));
  auto allocation = allocations_.find(account.allocation);
  bool is_granted = allocation != allocations_.end() && allocation->second.is_granted;
  if (!member->page || !is_granted || !watch(pair[0]) ||
      !control::send_message(pair[0], control::Kind::turns, nullptr, 0, member->page->descriptor(),
                             0)) {
    for (int fd : pair) ::close(fd);
    return -1;
  }
  Member& added = *(members_[pair[0]] = std::move(member));
  added.socket = sockets_[account.session] = pair[0];
  added.values().beat.store(beats_);
  added.allocation = &allocation->second;
  added.allocation->sessions.push_back(&added);
  Microseconds now = clock_();
  join(added, now);
  take_over_debts(added, now);
  tell_sessions();
  arm(now);
  return pair[1];
}

bool Arbiters::is_connected(const SessionId& session) {
  FairLock lock(mutex_);
  return sockets_.count(session);
}

Arbiters::Limit Arbiters::limit(const SessionId& session) {
  FairLock lock(mutex_);
  auto it = sockets_.find(session);
  if (it == sockets_.end()) return {};
  Member& member = *members_.at(it->second);
  Microseconds now = clock_(), longest = 0;
  bool is_sliced = false, has_turns = false;
  for (uint32_t p = 0; p < member.partitions; ++p) {
    const Place& place = member.places[p];
    is_sliced |= place.sliced_at && now - place.sliced_at < kShown;
    has_turns |= !place.gpu->arbiter.is_open();
    Microseconds drains = place.drains_since ? now - place.drains_since : 0;
    longest = std::max({longest, place.longest_drain.of(now), drains});
  }
  Enforcement turns = longest > kLongDrain ? Enforcement::coarse : Enforcement::turns;
  Enforcement found = has_turns ? turns : Enforcement::alone;
  return {is_sliced ? Enforcement::sliced : found, (uint32_t)(longest / 1000),
          member.places[0].gpu->arbiter.share(member.allocation->id)};
}

void Arbiters::Limit::put(control::SessionRecord& record) const {
  record.enforcement = (uint32_t)enforcement;
  record.longest_drain_ms = longest_drain_ms;
  record.compute_mode = (uint32_t)share.mode;
  record.compute_percent = share.percent;
}

Microseconds Arbiters::Drain::of(Microseconds now) const {
  return now - at < kShown ? length : 0;
}

void Arbiters::Drain::note(Microseconds drain, Microseconds now) {
  if (drain < of(now)) return;
  length = drain;
  at = now;
}

void Arbiters::forget(int fd) {
  auto it = members_.find(fd);
  Member& member = *it->second;
  Microseconds now = clock_();
  auto& sessions = member.allocation->sessions;
  std::erase(sessions, &member);
  // The session waits on no GPU any more. leave() must not see its request on one GPU when it ends
  // the turn on another one.
  for (Place& place : member.places) place.stage = Stage::idle;
  for (uint32_t p = 0; p < member.partitions; ++p) leave(member, p, now);
  if (sessions.empty()) stalls_.erase(member.allocation);
  std::erase(untold_, &member);
  sockets_.erase(member.session);
  members_.erase(it);
}

// The last session of an account takes the account with it.
void Arbiters::leave(Member& member, uint32_t partition, Microseconds now) {
  Gpu& gpu = *member.places[partition].gpu;
  Allocation& a = *member.allocation;
  Places& places = gpu.places.at(a.id);
  std::erase(places, std::pair(&member, partition));
  gpu.changed = true;
  bool is_last = places.empty();
  if (is_last) {
    gpu.places.erase(a.id);
    gpu.arbiter.remove(a.id, now);
    gpu.joint.erase(a.id);
    gpu.received.remove(a.id);
    gpu.received.set_in_turns(!gpu.arbiter.is_open(), now);
  }
  update_late(gpu, a.id, now);
  if (is_last && !a.is_granted) gpu.arbiter.move_debt(a.id, a.debts(), now);
  settle(gpu, now);
  update_joint(a);
}

// Forgets the GPUs without sessions and debts.
void Arbiters::forget_settled(Microseconds now) {
  std::erase_if(gpus_, [now](auto& entry) {
    return entry.second.places.empty() && entry.second.arbiter.is_settled(now);
  });
}

std::span<const Arbiters::Places::value_type> Arbiters::places_on(const Gpu& gpu,
                                                                  const Arbiter::Id& id) {
  auto it = gpu.places.find(id);
  if (it == gpu.places.end()) return {};
  places_seen_ += it->second.size();
  return it->second;
}

bool Arbiters::is_busy(const Gpu& gpu, const Arbiter::Id& id) {
  return std::ranges::any_of(places_on(gpu, id), [](auto& entry) {
    Stage stage = entry.first->places[entry.second].stage;
    return stage == Stage::holds || stage == Stage::draining;
  });
}

void Arbiters::show_word(Member& member, uint32_t partition, uint32_t turn, TurnState state) {
  auto& word = member.values().word[partition];
  uint32_t value = control::turn_word(turn, state);
  if (word.load(std::memory_order_relaxed) == value) return;
  word.store(value, std::memory_order_release);
  if (!std::exchange(member.changed, true)) untold_.push_back(&member);
}

// Brings the place of a session into line with the arbiter.
void Arbiters::show(Gpu& gpu, Member& member, uint32_t partition, bool has_turn, Microseconds now) {
  Place& place = member.places[partition];
  uint32_t word = member.values().word[partition].load(std::memory_order_relaxed);
  bool was_open = control::state_of_word(word) == TurnState::open;
  if (gpu.arbiter.is_open()) {
    place.stage = Stage::idle;
    place.is_overdue = false;
    place.drains_since = 0;
    return show_word(member, partition, place.turn, TurnState::open);
  }
  if (has_turn && (was_open || place.stage == Stage::wants)) {
    place.stage = Stage::holds;
    // A session takes no notice of a number that it has reported as drained.
    place.turn = place.turn == gpu.arbiter.turn() ? gpu.arbiter.renumber() : gpu.arbiter.turn();
    place.is_overdue = false;
    return show_word(member, partition, place.turn, TurnState::turn);
  }
  if (has_turn && place.stage == Stage::holds) return;
  if (place.stage == Stage::holds) {
    place.stage = Stage::draining;
    if (!place.drains_since) place.drains_since = now;
  }
  // A request from before the page was open is forgotten, and the session would not repeat it.
  if (was_open) place.stage = Stage::wants;
  bool single = place.stage == Stage::draining && place.is_single;
  show_word(member, partition, place.turn, single ? TurnState::single : TurnState::closed);
}

// For what waited when the GPU became shared.
void Arbiters::want_again(Gpu& gpu, Microseconds now) {
  for (auto& [id, places] : gpu.places)
    for (auto& [member, partition] : places)
      if (member->places[partition].stage == Stage::wants) want(gpu, *member->allocation, now);
}

// Nothing changes for other allocations than the holder and the one before. Returns true if the
// arbiter has changed.
bool Arbiters::show_places(Gpu& gpu, Microseconds now) {
  bool is_open = gpu.arbiter.is_open();
  Arbiter::Id holder = gpu.arbiter.holder();
  auto of_holder = places_on(gpu, holder);
  bool runs = holder && may_run(gpu, *of_holder.front().first->allocation);
  auto show_each = [&](const auto& places) REQUIRES(mutex_) {
    for (auto& [member, partition] : places)
      show(gpu, *member, partition, runs && member->allocation->id == holder, now);
    places_seen_ += places.size();
  };
  Arbiter::Id before = std::exchange(gpu.shown_holder, holder);
  bool was_open = std::exchange(gpu.was_open, is_open);
  if (was_open || is_open) {
    for (auto& [id, places] : gpu.places) show_each(places);
    if (!is_open) want_again(gpu, now);
    return !is_open;
  }
  if (before != holder) show_each(places_on(gpu, before));
  show_each(of_holder);
  return false;
}

// Repeats until the arbiter and all places agree: an unused turn ends at once.
void Arbiters::settle(Gpu& gpu, Microseconds now) {
  for (;;) {
    if (auto overdue = gpu.arbiter.take_overdue()) {
      mark_overdue(gpu, overdue, now);
      update_late(gpu, overdue, now);  // the work that does not end may be on another GPU
    }
    while (show_places(gpu, now)) {
    }
    auto holder = gpu.arbiter.holder();
    if (!holder) return;
    const Allocation& a = *gpu.places.at(holder).front().first->allocation;
    if (keeps_turn(gpu, a)) return;
    gpu.arbiter.drained(holder, has_waiting(gpu, a), now);
  }
}

void Arbiters::apply_want(Member& member, Place& place, Microseconds now) {
  if (place.stage != Stage::idle || place.gpu->arbiter.is_open()) return;
  place.stage = Stage::wants;
  place.unused_turns = 0;
  update_joint(*member.allocation);
  want(*place.gpu, *member.allocation, now);
}

void Arbiters::apply_drained(Member& member, Place& place, bool wants, Microseconds now) {
  Gpu& gpu = *place.gpu;
  const Allocation& a = *member.allocation;
  bool had_turn = place.stage == Stage::holds || place.stage == Stage::draining;
  // A session that has worked without this launcher reports the turn on its page again.
  if (!had_turn && !place.is_overdue) return wants ? apply_want(member, place, now) : void();
  Microseconds since = std::exchange(place.drains_since, 0);
  if (since) place.longest_drain.note(now - since, now);
  place.stage = wants ? Stage::wants : Stage::idle;
  place.is_overdue = place.is_single = false;
  place.late_from = Arbiter::kNever;
  if (had_turn && !keeps_turn(gpu, a)) gpu.arbiter.drained(a.id, has_waiting(gpu, a), now);
  if (!had_turn) update_late(gpu, a.id, now);
  if (wants && a.is_joint) want(gpu, a, now);
}

// False when the session breaks the protocol.
bool Arbiters::apply(Member& member, const control::TurnNotice& notice) {
  if (notice.partition >= member.partitions) return false;
  Place& place = member.places[notice.partition];
  Gpu& gpu = *place.gpu;
  Microseconds now = clock_();
  gpu.changed = true;
  if (notice.op == (uint32_t)control::TurnOp::want) {
    apply_want(member, place, now);
  } else if (notice.op != (uint32_t)control::TurnOp::drained) {
    return false;
  } else if (notice.turn == place.turn) {
    apply_drained(member, place, notice.wants != 0, now);
  } else if (is_late(place) && is_since(notice.turn, place.late_turn, place.turn)) {
    apply_drained_before(member, place, now);
  }
  settle(gpu, now);
  return true;
}

// False when the connection must be closed.
bool Arbiters::take_notices(int fd, Member& member) {
  for (int i = 0; i < kNoticesAtOnce; ++i) {
    control::TurnNotice notice;
    ssize_t n = recv(fd, &notice, sizeof notice, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n != (ssize_t)sizeof notice || !apply(member, notice)) return false;
  }
  return true;
}

// An event may be of an earlier descriptor with this number, so nothing follows from it alone.
void Arbiters::serve(int fd) {
  auto it = members_.find(fd);
  if (it != members_.end() && !take_notices(fd, *it->second)) forget(fd);
}

// Marks the GPUs where it is time for a change.
void Arbiters::mark_due(Microseconds now) {
  for (auto& [uuid, gpu] : gpus_) gpu.changed |= gpu.deadline <= now;
  for (auto& [allocation, stalled_at] : stalls_)
    if (stalled_at <= now) mark_changed(*allocation);
}

// Those that share an allocation with a changed GPU count as changed, too.
std::vector<Arbiters::Gpu*> Arbiters::take_changed() {
  Joint joint;
  for (auto& [uuid, gpu] : gpus_)
    if (gpu.changed) joint.insert(gpu.joint.begin(), gpu.joint.end());
  for (auto& [id, allocation] : joint) mark_changed(*allocation);
  std::vector<Gpu*> changed;
  for (auto& [uuid, gpu] : gpus_)
    if (std::exchange(gpu.changed, false)) changed.push_back(&gpu);
  return changed;
}

// The end of a turn on one GPU lets others begin, on all GPUs of an allocation with joint turns.
void Arbiters::advance_all(Microseconds now) {
  mark_due(now);
  for (auto gpus = take_changed(); !gpus.empty(); gpus = take_changed()) {
    for (Gpu* gpu : gpus) {
      gpu->arbiter.advance(now);
      settle(*gpu, now);
    }
    advance_joint(gpus, now);
    for (Gpu* gpu : gpus) gpu->deadline = gpu->arbiter.next_deadline(now);
  }
  forget_settled(now);
}

// The page has the state; the message only wakes the session. If there is no room for it, another
// one waits there.
void Arbiters::tell_sessions() {
  for (Member* member : untold_) {
    uint8_t wake = 0;
    (void)!send(member->socket, &wake, sizeof wake, MSG_DONTWAIT | MSG_NOSIGNAL);
    member->changed = false;
  }
  untold_.clear();
}

// True while the page of a session is not open.
bool Arbiters::has_turns() const {
  return std::ranges::any_of(gpus_, [](auto& entry) {
    return !entry.second.places.empty() && !entry.second.arbiter.is_open();
  });
}

// Shows the sessions that need turns that this thread is not stopped.
void Arbiters::beat(Microseconds now) {
  if (now < next_beat_ || !has_turns()) return;
  next_beat_ = now + kBeat;
  ++beats_;
  for (auto& [fd, member] : members_) member->values().beat.store(beats_);
}

Microseconds Arbiters::first_deadline(Microseconds now) const {
  Microseconds next = Arbiter::kNever;
  for (auto& [uuid, gpu] : gpus_) next = std::min(next, gpu.changed ? now : gpu.deadline);
  for (auto& [allocation, stalled_at] : stalls_) next = std::min(next, stalled_at);
  if (has_turns()) next = std::min(next, next_beat_);
  return next;
}

uint64_t Arbiters::places_seen() {
  FairLock lock(mutex_);
  return places_seen_;
}

Microseconds Arbiters::next_deadline() {
  FairLock lock(mutex_);
  return first_deadline(clock_());
}

// Sets the timer for what happens next.
void Arbiters::arm(Microseconds now) {
  Microseconds next = first_deadline(now);
  if (next == std::exchange(armed_, next)) return;
  itimerspec when{};
  // NOLINTNEXTLINE(custom-unchecked-product): less than a second
  if (next != Arbiter::kNever) when.it_value = {next / kSecond, next % kSecond * 1000};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void Arbiters::step(int timeout_ms) {
  epoll_event events[kEvents];
  int n = epoll_wait(epoll_, events, kEvents, timeout_ms);
  FairLock lock(mutex_);
  for (int i = 0; i < n; ++i)
    if (events[i].data.fd != timer_) serve(events[i].data.fd);
  Microseconds now = clock_();
  advance_all(now);
  beat(now);
  tell_sessions();
  if (timeout_ms) arm(now);
}

void Arbiters::run() {
  for (;;) step(-1);
}

}  // namespace busbar::launcher
