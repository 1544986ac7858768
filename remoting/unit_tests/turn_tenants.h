// Programs and tenants of the model, and the shares that they get.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "unit_tests/turn_model.h"

namespace busbar::model {

constexpr double kMostError = 1;  // points, over kMeasured
constexpr Nanoseconds kShort = 8 * kMicrosecond, kLong = 20 * kMillisecond;
constexpr Nanoseconds kWarmUp = 2 * kSecond, kMeasured = 10 * kSecond;
constexpr uint64_t kManyRecords = 600;

using Program = std::function<void(Session&)>;

// Keeps so many records of a cycle unfinished.
inline Program repeat(std::vector<Step> cycle, uint64_t records = kManyRecords) {
  auto at = std::make_shared<size_t>(0);
  return [cycle = std::move(cycle), records, at](Session& s) {
    while (s.unfinished < records) s.submit(cycle[(*at)++ % cycle.size()]);
  };
}

inline std::vector<Step> kernels(Nanoseconds length, size_t count = 1) {
  return std::vector<Step>(count, {Item::work, 16, 0, length, (uint64_t)length});
}

// A program that has no work for a time after some kernels.
struct Burst {
  uint64_t kernels;
  Nanoseconds length, pause;
  // Alone. The session notices the end of the work, and then what the program submits.
  double busy() const {
    Nanoseconds work = (Nanoseconds)kernels * length;
    return (double)work / (double)(work + pause + 2 * Session::kNotice);
  }
};

inline Program bursts(const Burst& burst) {
  auto back_at = std::make_shared<Nanoseconds>(kNever);
  return [burst, back_at](Session& s) {
    if (s.unfinished) return;
    if (*back_at == kNever) {
      *back_at = g_now + burst.pause;
      return s.wake_after(burst.pause);
    }
    if (g_now < *back_at) return;
    *back_at = kNever;
    for (uint64_t i = 0; i < burst.kernels; ++i) s.submit(kernels(burst.length).front());
  };
}

struct Tenant {
  uint32_t percent;
  Program program;
  control::ComputeMode mode = control::ComputeMode::shared;
  std::vector<size_t> gpus{0};
};

// Tenants that share GPUs, and the percentage of their time that each gets: the highest one, of a
// tenant with several.
class Tenants {
 public:
  explicit Tenants(const std::vector<Tenant>& tenants, Planted planted = Planted::none,
                   Nanoseconds warm_up = kWarmUp)
      : tenants_(tenants), node_(planted, gpus_of(tenants)) {
    for (auto& t : tenants) sessions_.push_back(&node_.add(t.percent, t.mode, t.gpus));
    for (size_t i = 0; i < tenants.size(); ++i) sessions_[i]->start(tenants[i].program);
    node_.run_for(warm_up);
  }
  // Calls the function with the session of a tenant, again and again.
  void call_each(size_t tenant, Nanoseconds period, const std::function<void(Session&)>& function) {
    node_.events.after(period, [=, this] {
      function(*sessions_[tenant]);
      call_each(tenant, period, function);
    });
  }
  void run_for(Nanoseconds duration) {
    auto percent = [&](Nanoseconds part) {
      return 100.0 * (double)part / (double)duration;
    };
    Nanoseconds idle_before = node_.gpu().idle();
    std::vector<std::vector<Nanoseconds>> before;
    for (Session* s : sessions_) before.push_back(executed(*s));
    node_.run_for(duration);
    idle = percent(node_.gpu().idle() - idle_before);
    got.clear();
    for (size_t i = 0; i < sessions_.size(); ++i) {
      auto times = executed(*sessions_[i]);
      for (size_t gpu = 0; gpu < times.size(); ++gpu) times[gpu] -= before[i][gpu];
      got.push_back(percent(std::ranges::max(times)));
    }
  }
  // The largest difference, in points, between what a tenant got and its share.
  double error() const {
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::abs(got[i] - tenants_[i].percent));
    return largest;
  }
  bool is_too_late(size_t tenant) { return node_.is_too_late(*sessions_[tenant]); }
  std::vector<double> got;
  double idle = 0;  // of the first GPU

 private:
  static size_t gpus_of(const std::vector<Tenant>& tenants) {
    size_t last = 0;
    for (auto& t : tenants) last = std::max(last, std::ranges::max(t.gpus));
    return last + 1;
  }
  static std::vector<Nanoseconds> executed(Session& session) {
    std::vector<Nanoseconds> times;
    for (size_t i = 0; i < session.gpus().size(); ++i) times.push_back(session.process(i).executed);
    return times;
  }
  const std::vector<Tenant> tenants_;
  Node node_;
  std::vector<Session*> sessions_;
};

// The largest error in windows of this length.
inline double error_of(Tenants&& running, Nanoseconds window = kMeasured) {
  double error = 0;
  for (Nanoseconds at = 0; at < kMeasured; at += window) {
    running.run_for(window);
    error = std::max(error, running.error());
  }
  return error;
}

// So many random cases, or more in a long run.
inline size_t cases(size_t usual) {
  const char* times = getenv("BUSBAR_MODEL_TIMES");
  return usual * (times ? strtoul(times, nullptr, 10) : 1);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;  // Knuth, MMIX
    return (state_ >> 33) % n;
  }
  // Between both, evenly by magnitude.
  Nanoseconds between(double least, double most) {
    return (Nanoseconds)(least * std::pow(most / least, (double)below(1000) / 1000));
  }

 private:
  uint64_t state_;
};

}  // namespace busbar::model
