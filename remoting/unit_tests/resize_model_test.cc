// Steps of a tenant in simulated time while its neighbours are resized, come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "unit_tests/turn_tenants.h"

namespace busbar::model {
namespace {

constexpr uint64_t kBatch = 90;  // kernels of a step: it takes twenty turns of all tenants
constexpr Nanoseconds kPeriod = 120 * kSecond;
constexpr size_t kSteps = 550;  // in a period
constexpr double kMostRatio = 1.05;

// Of nearly equal lengths: otherwise all steps would begin at the same place of a round.
Step kernel(Random& random) {
  Step step = kernels(kMillisecond).front();
  step.length += (Nanoseconds)random.below(kMillisecond / 5) - kMillisecond / 10;
  return step;
}

// The times at which the batches of a program end. Two of them are unfinished at any time.
class Steps {
 public:
  Program program() {
    return [this](Session& s) {
      for (; (submitted_ - s.unfinished) / kBatch > ended_; ++ended_) ends_.push_back(g_now);
      for (; s.unfinished + kBatch <= 2 * kBatch; submitted_ += kBatch)
        for (uint64_t i = 0; i < kBatch; ++i) s.submit(kernel(random_));
    };
  }
  // How long the steps of a period take, from the shortest to the longest.
  std::vector<Nanoseconds> since(Nanoseconds begin) const {
    std::vector<Nanoseconds> found;
    for (size_t i = 1; i < ends_.size(); ++i)
      if (ends_[i - 1] >= begin) found.push_back(ends_[i] - ends_[i - 1]);
    std::ranges::sort(found);
    return found;
  }

 private:
  Random random_{45};
  uint64_t submitted_ = 0, ended_ = 0;
  std::vector<Nanoseconds> ends_;
};

double quantile(const std::vector<Nanoseconds>& sorted, double q) {
  return (double)sorted.at((size_t)((double)(sorted.size() - 1) * q));
}

// A tenant of 45 % whose steps are known, and one of 55 %. A third one comes and goes.
class Resized {
 public:
  Resized() {
    kept_.start(steps_.program());
    shrunk_.start(busy());
    node_.run_for(kWarmUp);
    before_ = steps_in([this] { node_.run_for(kSecond); });
  }
  void come() {
    node_.resize(shrunk_, 35);
    run_at_most(300 * kMillisecond);
    third_ = &node_.add(20);
    third_->start(busy());
    run_at_most(kSecond);
  }
  void go() {
    node_.remove(*third_);
    run_at_most(100 * kMillisecond);
    node_.resize(shrunk_, 55);
    run_at_most(kSecond);
  }
  void resize_at_random() {
    uint32_t percent = 5 + (uint32_t)random_.below(46);
    node_.resize(shrunk_, percent);
    node_.resize(*third_, 55 - percent);
    run_at_most(400 * kMillisecond);
  }
  std::vector<Nanoseconds> steps_in(const std::function<void()>& change) {
    Nanoseconds begin = g_now;
    for (Nanoseconds end = begin + kPeriod; g_now < end;) change();
    return steps_.since(begin);
  }
  double before(double q) const { return quantile(before_, q); }

 private:
  static Program busy() { return repeat(kernels(kMillisecond), 128); }
  void run_at_most(Nanoseconds most) {
    node_.run_for(1 + (Nanoseconds)random_.below((uint64_t)most));
  }

  Node node_;
  Session& kept_ = node_.add(45);
  Session& shrunk_ = node_.add(55);
  Session* third_ = nullptr;
  Steps steps_;
  Random random_{40};
  std::vector<Nanoseconds> before_;
};

void expect_steps_as_before(Resized& tenants, const std::function<void()>& change) {
  auto found = tenants.steps_in(change);
  ASSERT_GE(found.size(), kSteps);
  for (double q : {0.5, 0.99}) EXPECT_LE(quantile(found, q), kMostRatio * tenants.before(q)) << q;
}

TEST(ResizeModel, StepsTakeNoLongerWhileNeighboursComeAndGo) {
  Resized tenants;
  expect_steps_as_before(tenants, [&] {
    tenants.come();
    tenants.go();
  });
}

TEST(ResizeModel, StepsTakeNoLongerWhileNeighboursAreResizedAtRandom) {
  Resized tenants;
  tenants.come();
  expect_steps_as_before(tenants, [&] { tenants.resize_at_random(); });
}

}  // namespace
}  // namespace busbar::model
