#include "server/completions.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace busbar::server {

namespace {
constexpr int kSpinRounds = 200;
constexpr auto kPollPause = std::chrono::microseconds(50);
constexpr auto kFullPause = std::chrono::milliseconds(1);  // while the client reads nothing
constexpr uint64_t kLinkPushBytes = 64 << 10;              // larger data uses the bulk connection
}  // namespace

void Completions::add(CompletionFence fence) {
  std::lock_guard lock(mutex_);
  pending_[fence.stream].push_back(std::move(fence));
  pending_count_.fetch_add(1, std::memory_order_relaxed);
}

bool Completions::poll() {
  if (!pending_count_.load(std::memory_order_relaxed)) return false;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  return may_block() ? end_work() : advance(lock);
}

// True if the executor leaves it to `thread_` to publish: the client reads nothing, or bytes for a
// bulk connection are next while records wait for the end of work.
bool Completions::may_block() const {
  auto is_bulk = [](const Delivery& d) {
    return d.chunk < 0 && d.bytes > kLinkPushBytes;
  };
  return s_.link.may_block() ||
         (is_watched_ && wake_executor_ && std::ranges::any_of(pending_, [&](auto& entry) {
            return !entry.second.empty() &&
                   std::ranges::any_of(entry.second.front().deliveries, is_bulk);
          }));
}

void Completions::watch_in_background(bool wake_executor) {
  wake_executor_ = wake_executor;
  if (!pending_count_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
  is_watched_ = !pending_.empty();
  if (!beside_.joinable() && !stopping_ && (others_pending() || has_work_to_end()))
    beside_ = std::thread([this] { run_beside(); });
  added_.notify_all();
}

void Completions::fail(CUresult error) {
  std::lock_guard lock(mutex_);
  if (error_ == CUDA_SUCCESS) error_ = error;
}

CUresult Completions::error() {
  std::lock_guard lock(mutex_);
  return error_;
}

void Completions::stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    added_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (beside_.joinable()) beside_.join();
}

void Completions::discard(CompletionFence& fence) {
  for (auto& d : fence.deliveries) {
    if (d.chunk < 0) continue;
    s_.link.shared()->release_chunk(false, (uint32_t)d.chunk);
    --fence.use->chunks;
  }
}

Completions::~Completions() {
  stop();
  for (auto& [stream, fences] : pending_)
    for (auto& fence : fences) discard(fence);
}

std::vector<CUevent> Completions::take_idle_events(uint32_t context) {
  std::lock_guard lock(mutex_);
  auto it = idle_events_.find(context);
  if (it == idle_events_.end()) return {};
  auto out = std::move(it->second);
  idle_events_.erase(it);
  return out;
}

std::vector<uint32_t> Completions::take_ended_holds() {
  if (!has_ended_holds_.load(std::memory_order_relaxed)) return {};
  std::lock_guard lock(mutex_);
  has_ended_holds_ = false;
  return std::exchange(ended_holds_, {});
}

void Completions::deliver(const Delivery& d, CUresult error, uint64_t& bulk_total) {
  if (d.chunk >= 0) {
    struct __attribute__((packed)) {
      uint64_t transfer, offset, bytes;
      uint32_t chunk;
    } head{d.transfer, d.offset, d.bytes, (uint32_t)d.chunk};
    if (error == CUDA_SUCCESS)
      s_.link.send(wire::Frame::shared_data, &head, sizeof head);
    else
      s_.link.shared()->release_chunk(false, (uint32_t)d.chunk);
    return;
  }
  if (error == CUDA_SUCCESS) {
    bool large = d.bytes > kLinkPushBytes;
    if (!large || !s_.bulk.send(d.transfer, d.offset, d.buffer.data(), d.bytes, bulk_total)) {
      uint64_t head[2] = {d.transfer, d.offset};
      s_.link.send(wire::Frame::data, head, sizeof head, d.buffer.data(), d.bytes);
    }
  }
}

// Runs without the lock.
void Completions::publish(CompletionFence& fence, CUresult error) {
  uint64_t bulk_total = 0;
  for (auto& d : fence.deliveries) {
    deliver(d, error, bulk_total);
    if (d.chunk >= 0) --fence.use->chunks;
  }
  if (fence.use) fence.use->completed = fence.submitted;
  fence.deliveries.clear();
  fence.consumed.clear();
  for (uint32_t chunk : fence.consumed_chunks) s_.link.shared()->release_chunk(true, chunk);
  if (fence.consumed_bytes) s_.credit(fence.consumed_bytes);
  struct {
    uint32_t stream, error;
    uint64_t position, bulk;
  } body{fence.stream, (uint32_t)error, fence.position, bulk_total};
  s_.link.send(wire::Frame::completion, &body, sizeof body);
  if (fence.host_function)
    s_.link.send(wire::Frame::host_function, &fence.host_function, sizeof fence.host_function);
}

bool Completions::completed(const CompletionFence& fence) {
  CUresult r = error_ ? error_ : fence.event ? s_.cu.cuEventQuery(fence.event) : CUDA_SUCCESS;
  if (r && r != CUDA_ERROR_NOT_READY && !error_) error_ = r;
  return r != CUDA_ERROR_NOT_READY;
}

// An error is told to the client at once. The work that was submitted before runs on, unless the
// error is one of the GPU.
bool Completions::is_running(const CompletionFence& fence) const {
  return fence.gate && fence.event && error_ &&
         s_.cu.cuEventQuery(fence.event) == CUDA_ERROR_NOT_READY;
}

// Returns true if work of running_ has ended.
bool Completions::end_running() {
  size_t before = running_.size();
  for (auto& fence : std::exchange(running_, {})) release(fence);
  if (running_.size() == before) return false;
  ++progress_;
  return true;
}

bool Completions::has_work_to_end() const {
  return !running_.empty() || std::ranges::any_of(pending_, [this](auto& entry) {
    return std::ranges::any_of(entry.second, [this](auto& fence) {
      return fence.ends_hold || (fence.gate && (wake_executor_ || !fence.gate->is_open()));
    });
  });
}

// Ends completed work of a stream that is not published. Returns true if there was any.
bool Completions::end_work_of(std::deque<CompletionFence>& fences) {
  bool any = false;
  for (auto& fence : fences) {
    if (!fence.gate && !fence.ends_hold) continue;
    if (fence.event && s_.cu.cuEventQuery(fence.event) == CUDA_ERROR_NOT_READY) break;
    end_work(fence);
    fence.gate = nullptr;
    fence.ends_hold = false;
    any = true;
  }
  return any;
}

// Tells those that wait for the work before the fence, beside the client.
void Completions::end_work(const CompletionFence& fence) {
  if (fence.gate) {
    fence.use->ended_fence = fence.work.number;
    fence.gate->complete(fence.work, fence.use->backlog);
  }
  if (!fence.ends_hold) return;
  ended_holds_.push_back(fence.stream);
  has_ended_holds_ = true;
}

bool Completions::end_work() {
  bool running = end_running(), any = false;
  for (auto& [stream, fences] : pending_) any |= end_work_of(fences);
  if (any) ++progress_;
  return any || running;
}

// Returns the completed fence with the lowest position among the heads of the streams, or end().
// A fence of another stream on which it depends has a lower position and completed before it. The
// search therefore starts over after every hit, so that completions are published in causal order.
Completions::Pending::iterator Completions::first_completed() {
  std::erase_if(pending_, [](auto& entry) { return entry.second.empty(); });
  auto found = pending_.end();
  for (bool again = true; again;) {
    again = false;
    for (auto it = pending_.begin(); it != pending_.end() && !again; ++it) {
      bool lower =
          found == pending_.end() || it->second.front().position < found->second.front().position;
      if (lower && completed(it->second.front())) {
        found = it;
        again = true;
      }
    }
  }
  return found;
}

// Ends the use of the event of a fence that is published, and its part of a turn.
void Completions::release(const CompletionFence& fence) {
  if (is_running(fence)) {
    CompletionFence& kept = running_.emplace_back();
    kept.event = fence.event;
    kept.context = fence.context;
    kept.stream = fence.stream;
    kept.use = fence.use;
    kept.ends_hold = fence.ends_hold;
    kept.gate = fence.gate;
    kept.work = fence.work;
    return;
  }
  pending_count_.fetch_sub(1, std::memory_order_relaxed);
  if (fence.event) idle_events_[fence.context].push_back(fence.event);
  end_work(fence);
}

// Returns true if a fence was published, or work of running_ has ended.
bool Completions::publish_completed(std::unique_lock<std::mutex>& lock) {
  bool any = end_running();
  for (auto it = first_completed(); it != pending_.end() && s_.link.has_room();
       it = first_completed()) {
    CompletionFence fence = std::move(it->second.front());
    it->second.pop_front();
    publishing_ = true;
    release(fence);
    CUresult error = error_;
    lock.unlock();
    publish(fence, error);
    ++progress_;
    lock.lock();
    publishing_ = false;
    any = true;
  }
  return any;
}

bool Completions::advance(std::unique_lock<std::mutex>& lock) {
  return cannot_publish() ? end_work() : publish_completed(lock);
}

// With one stream the driver wakes this thread; with several it polls. The work before the event of
// one stream may wait for the program, and the program for another stream: run_beside() sees that.
void Completions::wait_for_progress(std::unique_lock<std::mutex>& lock) {
  bool room = s_.link.has_room();
  if (pending_.size() != 1 || !running_.empty() || !room) {
    added_.wait_for(lock, room ? kPollPause : kFullPause);
    return;
  }
  CUevent event = pending_.begin()->second.front().event;
  awaited_ = event;
  lock.unlock();
  s_.cu.cuEventSynchronize(event);
  lock.lock();
  awaited_ = nullptr;
}

// In a turn, other work runs while a thread wakes up. On a small machine the software GPU would
// wait for the processor of a thread that polls.
bool Completions::has_work_of_turns() const {
  return std::ranges::any_of(pending_, [](auto& entry) {
    return !entry.second.empty() && entry.second.front().gate &&
           !entry.second.front().gate->is_open();
  });
}

// True if a fence is pending that `thread_` does not see, because it waits for another one.
bool Completions::others_pending() const {
  return awaited_ && std::any_of(pending_.begin(), pending_.end(), [&](auto& entry) {
           return !entry.second.empty() && entry.second.front().event != awaited_;
         });
}

void Completions::run_beside() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!others_pending() && !has_work_to_end())
      added_.wait(lock);
    else if ((others_pending() || cannot_publish()) && advance(lock) && wake_executor_)
      s_.link.wake();
    else
      added_.wait_for(lock, others_pending() ? kPollPause : kFullPause);
  }
}

void Completions::run() {
  auto yield = [](std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  };
  std::unique_lock lock(mutex_);
  int rounds = 0;
  while (!stopping_) {
    if (advance(lock)) {
      rounds = 0;
      if (wake_executor_) s_.link.wake();
    } else if (publishing_ && ++rounds < kSpinRounds) {
      yield(lock);
    } else if (publishing_) {
      added_.wait_for(lock, kPollPause);
    } else if (pending_.empty() && running_.empty()) {
      rounds = 0;
      is_watched_ = false;
      added_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
    } else if (++rounds < kSpinRounds && !has_work_of_turns()) {
      yield(lock);
    } else {
      wait_for_progress(lock);
    }
  }
}

}  // namespace busbar::server
