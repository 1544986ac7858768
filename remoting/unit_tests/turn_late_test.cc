// Work that is late, in simulated time, and the sessions that the launcher ends for it.
#include <gtest/gtest.h>

#include "unit_tests/turn_tenants.h"

namespace busbar::model {
namespace {

constexpr Nanoseconds kEndless = 1000 * kSecond;
constexpr Nanoseconds kLimit = Node::kMaxLateSeconds * kSecond;

// One kernel, and then others.
Program after_first(Nanoseconds length, Program program) {
  auto started = std::make_shared<bool>(false);
  return [length, program = std::move(program), started](Session& s) {
    if (!std::exchange(*started, true)) s.submit(kernels(length).front());
    program(s);
  };
}

// Visits of the neighbour are shorter than what the session has in flight.
TEST(TurnLate, SessionWhoseLateWorkHasEndedIsNotTooLate) {
  for (Nanoseconds length : {kMillisecond, 25 * kMillisecond}) {
    Tenants running({{50, after_first(800 * kMillisecond, repeat(kernels(length)))},
                     {50, bursts({3, kMillisecond, 97 * kMillisecond})}});
    running.run_for(90 * kSecond);
    EXPECT_FALSE(running.is_too_late(0)) << length << " ns";
  }
}

TEST(TurnLate, EndlessWorkIsTooLateForANeighbourThatWaits) {
  Tenants running({{50, repeat(kernels(kEndless))}, {50, repeat(kernels(kMillisecond))}});
  running.run_for(kLimit);
  EXPECT_TRUE(running.is_too_late(0));
  EXPECT_FALSE(running.is_too_late(1));
}

// Alone its kernels would take half of the limit.
TEST(TurnLate, SessionIsNotTooLateBecauseOfTheEndlessWorkOfAnother) {
  for (Nanoseconds length : {kLimit / 2, 2 * kLimit}) {
    Tenants running({{50, repeat(kernels(kEndless))}, {50, repeat(kernels(length))}});
    running.run_for(10 * kLimit);
    EXPECT_TRUE(running.is_too_late(0));
    EXPECT_FALSE(running.is_too_late(1)) << length << " ns";
  }
}

}  // namespace
}  // namespace busbar::model
