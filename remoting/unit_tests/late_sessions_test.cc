// Sessions whose work is late for longer than their allocation permits.
#include <map>
#include <memory>

#include "unit_tests/arbiters_client.h"

namespace busbar::launcher {
namespace {

using control::ComputeMode;
using control::Enforcement;

constexpr Microseconds kOneSecond = 1'000'000;
Microseconds g_late_now = kOneSecond;

// A session whose work never ends, of an allocation that may be late for 5 s, and its neighbour,
// which works for `busy` of each 100 ms.
class NeverEnding {
 public:
  explicit NeverEnding(Microseconds busy, ComputeMode mode = ComputeMode::shared) : busy_(busy) {
    control::Allocation a = half_of({0});
    a.max_late_seconds = 5;
    a.compute_mode = (uint32_t)mode;
    arbiters.set_allocation("late", a);
    arbiters.set_allocation("other", half_of({0}));
    late = std::make_unique<Client>(arbiters, Account{"late", {1}});
    other = std::make_unique<Client>(arbiters, Account{"other", {2}});
    late->send(TurnOp::want);
  }
  void run(Microseconds duration) {
    for (Microseconds end = g_late_now + duration; g_late_now < end; g_late_now += 1000) {
      bool works = g_late_now % 100'000 < busy_;
      if (works) other->send(TurnOp::want);
      if (other->state(0) == TurnState::closed && works)
        other->send(TurnOp::drained, other->turn(0));
      if (!works) other->report_idle(other->turn(0));
      arbiters.step(0);
    }
  }
  void run_alone(Microseconds duration) {
    arbiters.step(0);
    g_late_now += duration;
    arbiters.step(0);
  }
  bool is_too_late(uint8_t session = 1) { return arbiters.too_late().contains({session}); }
  Arbiters arbiters{[] { return g_late_now; }};
  std::unique_ptr<Client> late, other;

 private:
  const Microseconds busy_;
};

TEST(Arbiters, SessionIsTooLateWhenOthersHaveWaitedForLongerThanItsLimit) {
  NeverEnding work(100'000);
  work.run(5 * kOneSecond);
  EXPECT_EQ(work.arbiters.limit({1}).enforcement, Enforcement::sliced);
  EXPECT_FALSE(work.is_too_late()) << "a turn is late after half a second";
  work.run(kOneSecond);
  EXPECT_EQ(work.arbiters.too_late(), (std::map<SessionId, uint32_t>{{{1}, 5}}));
}

// A capped account may not go on while others have no work, and so is late then, too.
TEST(Arbiters, TimeInWhichOthersHaveNoWorkMakesNoSessionTooLate) {
  for (auto mode : {ComputeMode::shared, ComputeMode::capped}) {
    NeverEnding seldom(30'000, mode), never(0, mode);
    seldom.run(10 * kOneSecond);
    never.run(10 * kOneSecond);
    EXPECT_FALSE(seldom.is_too_late());
    EXPECT_FALSE(never.is_too_late());
    seldom.run(60 * kOneSecond);
    EXPECT_TRUE(seldom.is_too_late());
  }
}

// In every second round the late account has a turn when the other one comes back.
TEST(Arbiter, WorkIsLateWhileOthersWaitOrHaveATurn) {
  constexpr Microseconds kWork = 5'000, kPause = 200'000;
  constexpr Arbiter::Id late{1}, other{2};
  Arbiter arbiter;
  Microseconds now = kOneSecond, needed = 0;
  for (auto& id : {late, other}) arbiter.set_share(id, {ComputeMode::shared, 50}, now);
  arbiter.want(other, now);
  arbiter.advance(now += Arbiter::kTurn);
  arbiter.advance(now += Arbiter::kDrain);
  ASSERT_EQ(arbiter.take_overdue(), late);
  for (int i = 0; i < 100; ++i) {
    needed += kWork;
    arbiter.drained(other, false, now += kWork);
    now += kPause;
    if (i % 2) arbiter.advance(now);  // a look changes nothing
    Microseconds wanted_at = now;
    for (arbiter.want(other, now); arbiter.holder() != other; arbiter.advance(now))
      now = std::max(now + 1, arbiter.next_deadline(now));
    needed += now - wanted_at;
  }
  arbiter.remove(other, now += kWork);
  EXPECT_EQ(arbiter.late(late), needed + kWork);
}

TEST(Arbiters, WorkThatEndsLateIsNotTooLate) {
  NeverEnding work(100'000);
  for (int i = 0; i < 5; ++i) {
    work.run(4 * kOneSecond);
    work.late->send(TurnOp::drained, work.late->turn(0));
    EXPECT_FALSE(work.is_too_late());
  }
}

TEST(Arbiters, SessionIsNotTooLateForTheWorkOfAnotherOneOfItsAllocation) {
  NeverEnding work(100'000);
  work.run(4 * kOneSecond);
  Client second(work.arbiters, {"late", {3}});
  second.send(TurnOp::want);
  work.run(3 * kOneSecond);
  EXPECT_TRUE(work.is_too_late(1));
  EXPECT_FALSE(work.is_too_late(3));
  work.run(4 * kOneSecond);
  EXPECT_TRUE(work.is_too_late(3));
}

// Each neighbour leaves the GPU to the late session for a while.
TEST(Arbiters, SessionIsTooLateForNeighboursThatComeAndGo) {
  NeverEnding work(100'000);
  for (int i = 0; i < 4; ++i) {
    work.run(2 * kOneSecond);
    work.other.reset();
    EXPECT_EQ(work.is_too_late(), i == 3) << i;
    work.run_alone(kOneSecond);
    work.other = std::make_unique<Client>(work.arbiters, Account{"other", {2}});
  }
}

TEST(Arbiters, WorkThatEndedWhileTheGpuWasOpenIsNotLate) {
  NeverEnding work(100'000);
  work.run(4 * kOneSecond);
  work.other.reset();
  work.run_alone(kOneSecond);
  work.other = std::make_unique<Client>(work.arbiters, Account{"other", {2}});
  work.other->send(TurnOp::want);
  work.arbiters.step(0);
  work.late->send(TurnOp::drained, work.late->turn(0));
  work.late->send(TurnOp::want);
  work.run(5 * kOneSecond);
  EXPECT_FALSE(work.is_too_late());
}

// The launcher was stopped, and has not seen how the work ended.
TEST(Arbiters, TimeWithoutTheLauncherMakesNoSessionTooLate) {
  NeverEnding work(100'000);
  work.run(kOneSecond);
  ASSERT_EQ(work.arbiters.limit({1}).enforcement, Enforcement::sliced);
  g_late_now += 60 * kOneSecond;
  work.arbiters.step(0);
  EXPECT_FALSE(work.is_too_late());
}

TEST(Arbiters, SessionWithoutALimitIsNeverTooLate) {
  NeverEnding work(100'000);
  work.arbiters.set_allocation("late", half_of({0}));
  work.run(60 * kOneSecond);
  EXPECT_TRUE(work.arbiters.too_late().empty());
}

}  // namespace
}  // namespace busbar::launcher
