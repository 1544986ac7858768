// Simulated time, and a GPU in it whose driver slices its time between processes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

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

// ---- a GPU ----
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
  using Flags = std::shared_ptr<std::map<uint32_t, bool>>;
  struct Process {
    Flags flags;            // of all processes of an allocation
    Flags events;           // of a session: those that have completed
    uint32_t parallel = 1;  // kernels of different streams that run side by side
    std::map<uint32_t, std::deque<Item>> streams;
    Nanoseconds executed = 0;
  };

  Process& add_process(const Flags& flags, const Flags& events) {
    return *processes_.emplace_back(std::make_unique<Process>(flags, events));
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
  void run_for(Nanoseconds passed) {
    auto running = choose();
    if (running.empty()) idle_ += passed;
    if (!running.empty()) processes_[current_]->executed += passed;
    for (Item* item : running) item->left -= passed;
    slice_left_ -= passed;
  }
  void end_slice() {
    if (slice_left_ <= 0 && is_contended()) take_turns();
  }
  // Ends what takes no time. What ends on one GPU may be what another one waits for.
  static void settle(const std::vector<Gpu*>& gpus) {
    for (bool ended = true; ended;) {
      ended = false;
      for (Gpu* gpu : gpus)
        for (auto& process : gpu->processes_) ended |= end_one(*process);
    }
  }

 private:
  static bool is_over(Process& p, const Item& item) {
    if (item.kind == Item::wait) return (*p.flags)[item.flag];
    if (item.kind == Item::wait_event) return (*p.events)[item.flag];
    return item.left <= 0;
  }
  static bool end_one(Process& p) {
    for (auto& [id, items] : p.streams) {
      if (items.empty() || !is_over(p, items.front())) continue;
      Item item = std::move(items.front());
      items.pop_front();
      if (item.kind == Item::write) (*p.flags)[item.flag] = true;
      if (item.kind == Item::event) (*p.events)[item.flag] = true;
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

}  // namespace busbar::model
