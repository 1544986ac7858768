// Steps of a tenant in simulated time beside hostile neighbours.
#include <gtest/gtest.h>

#include <vector>

#include "unit_tests/turn_steps.h"

namespace busbar::model {
namespace {

constexpr uint64_t kVictimKernels = 250;  // of a step: 25 turns of the tenant
constexpr Nanoseconds kBeside = 60 * kSecond;
constexpr double kMostOfFair = 1.1;

// The steps of a tenant of 50 % beside a neighbour of 50 %.
std::vector<Nanoseconds> steps_beside(const Program& neighbour, Planted planted = Planted::none) {
  Node node(planted);
  Steps steps(kVictimKernels);
  node.add(50).start(steps.program());
  node.add(50).start(neighbour);
  node.run_for(kWarmUp);
  Nanoseconds begin = g_now;
  node.run_for(kBeside);
  return steps.since(begin);
}

Program well_behaved() {
  return repeat(kernels(kMillisecond), 128);
}
Program endless_launches() {
  return repeat(kernels(20 * kMicrosecond));
}
Program huge_grids() {
  return repeat(kernels(kLong), 8);
}

TEST(TurnNeighbours, StepsBesideHostileOnesTakeTheirFairTime) {
  double fair = quantile(steps_beside(well_behaved()), 0.5);
  EXPECT_LE(fair, 2.05 * kVictimKernels * kMillisecond);
  for (const Program& hostile : {endless_launches(), huge_grids()}) {
    auto found = steps_beside(hostile);
    ASSERT_GE(found.size(), 100u);
    EXPECT_LE(quantile(found, 0.99), kMostOfFair * fair);
  }
  auto unpaid = steps_beside(huge_grids(), Planted::no_carry);
  EXPECT_GT(quantile(unpaid, 0.99), kMostOfFair * fair);
}

}  // namespace
}  // namespace busbar::model
