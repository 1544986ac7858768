#include "server/stream_queue.h"

#include <algorithm>

namespace busbar::server {

bool StreamQueues::empty(uint32_t queue) const {
  auto it = queues_.find(queue);
  return it == queues_.end() || it->second.waiting.empty();
}
bool StreamQueues::held(uint32_t queue) const {
  auto it = queues_.find(queue);
  return it != queues_.end() && it->second.held;
}
bool StreamQueues::busy(uint32_t queue) const {
  return !empty(queue) || held(queue);
}
uint64_t StreamQueues::tail(uint32_t queue) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.pushed;
}

bool StreamQueues::passed(const Gate& g) const {
  if (g.transfer) return staging_.has(g.transfer, g.bytes);
  auto it = queues_.find(g.queue);
  if (it == queues_.end()) return true;
  if (it->second.popped < g.place) return false;
  return !(it->second.held && it->second.popped == g.place);  // its host function still runs
}

uint64_t StreamQueues::park(uint32_t queue, const Record& record, std::vector<Gate> gates) {
  if (parked_ >= wire::kMaxParallelRequests) return 0;
  Queue& q = queues_[queue];
  Waiting w;
  w.bytes.assign(record.payload, record.payload + record.head.bytes - sizeof record.head);
  w.record = record;
  w.gates = std::move(gates);
  q.waiting.push_back(std::move(w));
  ++parked_;
  return ++q.pushed;
}

std::vector<Gate> StreamQueues::all_tails() const {
  std::vector<Gate> gates;
  for (auto& [id, q] : queues_)
    if (!q.waiting.empty() || q.held) gates.push_back({id, q.pushed, 0, 0});
  return gates;
}

void StreamQueues::hold(uint32_t queue) {
  Queue& q = queues_[queue];
  if (!q.held) {
    q.held = true;
    ++parked_;
  }
}
void StreamQueues::resume(uint32_t queue) {
  Queue& q = queues_[queue];
  if (q.held) {
    q.held = false;
    --parked_;
  }
}

void StreamQueues::forget(uint32_t queue) {
  if (!busy(queue)) queues_.erase(queue);
}

bool StreamQueues::step(uint32_t, Queue& q) {
  if (q.held || q.waiting.empty()) return false;
  auto& gates = q.waiting.front().gates;
  std::erase_if(gates, [&](const Gate& g) { return passed(g); });
  if (!gates.empty()) return false;
  Waiting w = std::move(q.waiting.front());
  q.waiting.pop_front();
  ++q.popped;
  --parked_;
  w.record.payload = w.bytes.data();
  run_(w.record);
  return true;
}

void StreamQueues::progress() {
  if (running_ || parked_ == 0) return;
  running_ = true;
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [id, q] : queues_)
      while (step(id, q)) moved = true;
  }
  running_ = false;
}

}  // namespace busbar::server
