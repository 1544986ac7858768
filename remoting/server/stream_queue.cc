#include "server/stream_queue.h"

#include <algorithm>
#include <limits>

#include "checked_size.h"

namespace busbar::server {

namespace {
constexpr uint64_t kNewest = std::numeric_limits<uint64_t>::max();
}  // namespace

StreamQueues::LegacyOrder StreamQueues::order_of(const StreamState& st) {
  return {st.context, st.legacy, st.blocking && !st.legacy};
}

uint64_t StreamQueues::cost_of(const Record& record) {
  return sizeof(Parked) + record.payload_bytes();
}

bool StreamQueues::held(uint32_t queue) const {
  auto it = queues_.find(queue);
  return it != queues_.end() && it->second.hold;
}

bool StreamQueues::has_run(uint32_t queue, uint64_t sequence) const {
  if (!sequence) return true;
  auto it = queues_.find(queue);
  return it == queues_.end() || it->second.first() > sequence;
}

bool StreamQueues::satisfied(const Dependencies& d) const {
  if (d.transfer && !bulk_.has(d.transfer, d.bytes)) return false;
  return has_run(d.queue, d.sequence) &&
         std::ranges::all_of(d.more, [&](auto& o) { return has_run(o.first, o.second); });
}

// True if every record that the legacy stream orders before `sequence` of this queue has run.
bool StreamQueues::order_holds(const LegacyOrder& order, uint64_t sequence) const {
  if (order.blocking) {
    auto legacy = legacy_.find(order.context);
    return legacy == legacy_.end() || queues_.at(legacy->second).first() > sequence;
  }
  return !order.legacy || std::none_of(queues_.begin(), queues_.end(), [&](auto& entry) {
    const Queue& q = entry.second;
    return q.order.blocking && q.order.context == order.context && q.first() < sequence;
  });
}

bool StreamQueues::legacy_order_holds(const StreamState& st) const {
  return order_holds(order_of(st), kNewest);
}

// True if every record before the barrier `sequence` has run.
bool StreamQueues::barrier_holds(uint64_t sequence) const {
  return std::none_of(queues_.begin(), queues_.end(), [&](auto& entry) {
    const Queue& q = entry.second;
    if (q.is_wait && q.parked.empty()) return false;
    uint64_t first = q.is_wait ? q.parked.front().sequence : q.first();
    return entry.first != kBarrier && first < sequence;
  });
}

StreamQueues::Queue& StreamQueues::make_busy(uint32_t queue, const LegacyOrder& order) {
  auto [it, added] = queues_.try_emplace(queue);
  if (!added) return it->second;
  it->second.order = order;
  if (order.legacy) legacy_[order.context] = queue;
  return it->second;
}

void StreamQueues::remove_if_idle(uint32_t queue) {
  auto it = queues_.find(queue);
  if (it == queues_.end() || it->second.hold || !it->second.parked.empty()) return;
  if (it->second.order.legacy) legacy_.erase(it->second.order.context);
  queues_.erase(it);
}

void StreamQueues::pause(uint32_t id, Queue& q, bool paused) {
  if (q.paused == paused) return;
  q.paused = paused;
  pause_changes_.push_back({id, paused});
}

uint64_t StreamQueues::append(uint32_t queue, const LegacyOrder& order, const Record& record,
                              const Dependencies& dependencies) {
  uint64_t cost = cost_of(record);
  if (!(CheckedSize(parked_bytes_) + cost).within(wire::kMaxHeldBytes)) return 0;
  parked_bytes_ += cost;
  Queue& q = make_busy(queue, order);
  q.bytes += cost;
  if (queue != kBarrier && queue < kChanges && q.bytes > wire::kPauseStreamBytes)
    pause(queue, q, true);
  Parked& p = q.parked.emplace_back();
  p.sequence = ++last_sequence_;
  p.record = record;
  p.payload.assign(record.payload, record.payload + record.payload_bytes());
  p.dependencies = dependencies;
  return p.sequence;
}

uint64_t StreamQueues::park(const StreamState& st, const Record& record,
                            const Dependencies& dependencies) {
  return append(st.id, order_of(st), record, dependencies);
}

uint64_t StreamQueues::park_change(uint32_t queue, const Record& record,
                                   const Dependencies& dependencies) {
  return append(queue, {}, record, dependencies);
}

uint64_t StreamQueues::park_barrier(const Record& record) {
  return append(kBarrier, {}, record, {});
}

// The hold has the position of the record that causes it.
void StreamQueues::hold(const StreamState& st, Hold by) {
  Queue& q = make_busy(st.id, order_of(st));
  q.is_wait = by == Hold::wait;
  if (!q.hold) q.hold = running_sequence_ ? running_sequence_ : ++last_sequence_;
}

void StreamQueues::resume(uint32_t queue) {
  auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  it->second.hold = 0;
  it->second.is_wait = false;
  remove_if_idle(queue);
}

bool StreamQueues::ready(uint32_t id, const Queue& q) const {
  if (q.hold || q.parked.empty()) return false;
  const Parked& head = q.parked.front();
  if (id == kBarrier) return barrier_holds(head.sequence);
  return order_holds(q.order, head.sequence) && satisfied(head.dependencies);
}

// Runs the first record of a queue. Returns false if it must wait.
bool StreamQueues::run_head(uint32_t id) {
  auto it = queues_.find(id);
  if (it == queues_.end() || !ready(id, it->second)) return false;
  Parked& head = it->second.parked.front();
  head.record.payload = head.payload.data();
  running_sequence_ = head.sequence;
  Outcome outcome = run_(head.record);
  running_sequence_ = 0;
  if (outcome == Outcome::waits) return false;
  uint64_t cost = cost_of(head.record);
  parked_bytes_ -= cost;
  it->second.bytes -= cost;
  if (it->second.bytes <= wire::kPauseStreamBytes / 2) pause(id, it->second, false);
  it->second.parked.pop_front();
  remove_if_idle(id);
  return true;
}

// Runs what is ready in every queue. Returns false if nothing was.
bool StreamQueues::run_pass() {
  pass_.clear();
  for (auto& [id, q] : queues_) pass_.push_back(id);
  auto begin = std::lower_bound(pass_.begin(), pass_.end(), first_of_pass_);
  std::rotate(pass_.begin(), begin, pass_.end());
  bool progress = false;
  for (uint32_t id : pass_)
    while (run_head(id)) {
      progress = true;
      first_of_pass_ = id + 1;
    }
  return progress;
}

void StreamQueues::run_ready() {
  if (running_) return;
  running_ = true;
  while (!queues_.empty() && run_pass()) {
  }
  running_ = false;
}

}  // namespace busbar::server
