#include "server/completions.h"

#include <time.h>

#include <chrono>
#include <cstring>

namespace busbar::server {

namespace {
constexpr int kSpinRounds = 200;
constexpr auto kPollPause = std::chrono::microseconds(50);
constexpr uint64_t kLinkPushBytes = 64 << 10;  // larger answers go over the bulk connection
}  // namespace

void Completions::add(Mark m) {
  std::lock_guard lock(mutex_);
  pending_[m.stream].push_back(std::move(m));
  pending_count_.fetch_add(1, std::memory_order_relaxed);
}

void Completions::poll() {
  if (!pending_count_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && !publishing_) poll_heads(lock);
}

void Completions::settle() {
  if (!pending_count_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
  added_.notify_one();
}

void Completions::fail(CUresult error, uint64_t position) {
  std::lock_guard lock(mutex_);
  if (error_ == CUDA_SUCCESS) {
    error_ = error;
    error_position_ = position;
  }
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
}

void Completions::drop(Mark& m) {
  for (auto& d : m.deliveries) {
    if (d.chunk < 0)
      s_.staging.give(d.staging);
    else
      s_.link.shared()->free_chunk(false, (uint32_t)d.chunk);
  }
  for (auto& p : m.consumed) s_.staging.give(p);
}

// The session is over.
Completions::~Completions() {
  stop();
  for (auto& [stream, marks] : pending_)
    for (auto& m : marks) drop(m);
}

std::vector<CUevent> Completions::recycled(uint32_t context) {
  std::lock_guard lock(mutex_);
  auto it = recycled_.find(context);
  if (it == recycled_.end()) return {};
  auto out = std::move(it->second);
  recycled_.erase(it);
  return out;
}

// Called without the lock: the socket may be slow.
void Completions::publish(Mark& m, CUresult error) {
  uint64_t bulk_total = 0;
  for (auto& d : m.deliveries) {
    bool large = d.bytes > kLinkPushBytes;
    if (d.chunk >= 0) {
      struct __attribute__((packed)) {
        uint64_t transfer, offset, bytes;
        uint32_t chunk;
      } head{d.transfer, d.offset, d.bytes, (uint32_t)d.chunk};
      if (error == CUDA_SUCCESS)
        s_.link.send(wire::Frame::push_shared, &head, sizeof head);
      else
        s_.link.shared()->free_chunk(false, (uint32_t)d.chunk);
      continue;
    }
    if (error == CUDA_SUCCESS &&
        !(large &&
          s_.staging.send_bulk(d.transfer, d.offset, d.staging.data, d.bytes, bulk_total))) {
      uint64_t head[2] = {d.transfer, d.offset};
      s_.link.send(wire::Frame::push, head, sizeof head, d.staging.data, d.bytes);
    }
    s_.staging.give(d.staging);
  }
  for (auto& p : m.consumed) s_.staging.give(p);
  for (uint32_t chunk : m.consumed_chunks) s_.link.shared()->free_chunk(true, chunk);
  if (m.consumed_bytes) s_.credit(m.consumed_bytes);
  struct {
    uint32_t stream, error;
    uint64_t position, bulk;
  } body{m.stream, (uint32_t)error, m.position, bulk_total};
  s_.link.send(wire::Frame::completion, &body, sizeof body);
  if (m.host_function)
    s_.link.send(wire::Frame::host_function, &m.host_function, sizeof m.host_function);
}

bool Completions::done(const Mark& m) {
  CUresult r = error_ ? error_ : m.event ? s_.cu.cuEventQuery(m.event) : CUDA_SUCCESS;
  if (r && r != CUDA_ERROR_NOT_READY && !error_) {
    error_ = r;
    error_position_ = m.position;
  }
  return r != CUDA_ERROR_NOT_READY;
}

// A finished head before which nothing is finished. What it waited for in another stream has a
// lower position, and was finished when it was: so after every finding all lower ones are asked
// again, and the client hears of causes first.
Completions::Heads::iterator Completions::first_done() {
  std::erase_if(pending_, [](auto& entry) { return entry.second.empty(); });
  auto found = pending_.end();
  for (bool more = true; more;) {
    more = false;
    for (auto it = pending_.begin(); it != pending_.end() && !more; ++it)
      if ((found == pending_.end() ||
           it->second.front().position < found->second.front().position) &&
          done(it->second.front())) {
        found = it;
        more = true;
      }
  }
  return found;
}

// Publishes every finished head. True when something was published.
bool Completions::poll_heads(std::unique_lock<std::mutex>& lock) {
  bool any = false;
  for (auto it = first_done(); it != pending_.end(); it = first_done()) {
    Mark m = std::move(it->second.front());
    it->second.pop_front();
    pending_count_.fetch_sub(1, std::memory_order_relaxed);
    publishing_ = true;  // one at a time: the order of a stream is kept
    if (m.event) recycled_[m.context].push_back(m.event);
    CUresult error = error_;
    lock.unlock();
    publish(m, error);
    lock.lock();
    publishing_ = false;
    any = true;
  }
  return any;
}

void Completions::run() {
  std::unique_lock lock(mutex_);
  int rounds = 0;
  while (!stopping_) {
    if (publishing_) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      continue;
    }
    if (poll_heads(lock)) {
      rounds = 0;
      continue;
    }
    if (pending_.empty()) {
      rounds = 0;
      added_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
      continue;
    }
    if (++rounds < kSpinRounds) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      continue;
    }
    if (pending_.size() == 1) {  // one stream: the driver wakes us
      CUevent event = pending_.begin()->second.front().event;
      lock.unlock();
      s_.cu.cuEventSynchronize(event);
      lock.lock();
    } else
      added_.wait_for(lock, kPollPause);
  }
}

}  // namespace busbar::server
