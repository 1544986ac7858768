// Steps of a tenant in simulated time while its neighbours are resized, come and go.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "unit_tests/turn_steps.h"

namespace busbar::model {
namespace {

constexpr uint64_t kBatch = 90;  // kernels of a step: it takes twenty turns of all tenants
constexpr Nanoseconds kPeriod = 120 * kSecond;
constexpr size_t kSteps = 550;  // in a period
constexpr double kMostRatio = 1.05;

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
  Steps steps_{kBatch};
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
