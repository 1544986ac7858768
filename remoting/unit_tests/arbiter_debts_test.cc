// An account that leaves, comes back or changes its share keeps its debt. It loses the credit that
// its new share does not have.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "launcher/arbiter.h"
#include "unit_tests/account_ids.h"

namespace busbar::launcher {
namespace {

using control::ComputeMode;

constexpr Microseconds kSecond = 1'000'000, kKernel = 400'000;
constexpr auto kModes = {ComputeMode::shared, ComputeMode::capped, ComputeMode::guaranteed,
                         ComputeMode::exclusive};

// Returns the share of the GPU, in percent, of a tenant that runs one kernel in each session. The
// other one always has work, in kernels of 1 ms.
double share_with_a_session_for_each_kernel(Arbiter::Share share, Microseconds kernel,
                                            Microseconds pause, bool same_allocation = true) {
  Arbiter arbiter;
  Microseconds now = 0, used = 0, ends_at = 0, returns_at = 0;
  arbiter.set_share(kVictim, {ComputeMode::shared, 100 - share.percent}, 0);
  arbiter.want(kVictim, 0);
  for (uint64_t session = 0; now < 60 * kSecond; now += 1000) {
    Arbiter::Id id{kHostile.allocation + (same_allocation ? 0 : session)};
    if (!ends_at && now >= returns_at) {
      arbiter.set_share(id, share, now);
      if (!same_allocation) arbiter.move_debt(kTenant, id, now);
      arbiter.want(id, now);
      ends_at = Arbiter::kNever;
    }
    arbiter.advance(now);
    bool is_victim = arbiter.holder() == kVictim;
    if (is_victim && arbiter.is_revoked()) arbiter.drained(kVictim, true, now);
    if (arbiter.holder() && !is_victim && ends_at == Arbiter::kNever) ends_at = now + kernel;
    if (!ends_at || now < ends_at) continue;
    used += kernel;
    arbiter.remove(id, now);
    if (!same_allocation) arbiter.move_debt(id, kTenant, now);
    ends_at = 0;
    returns_at = now + pause;
    ++session;
  }
  return 100.0 * (double)used / (double)now;
}

TEST(ArbiterDebts, OutliveTheSessionsOfAnAllocation) {
  for (auto mode : {ComputeMode::shared, ComputeMode::guaranteed, ComputeMode::capped})
    for (Microseconds kernel : {50'000, 400'000})
      for (Microseconds pause : {0, 30'000, 500'000})
        EXPECT_LE(share_with_a_session_for_each_kernel({mode, 10}, kernel, pause), 13.0)
            << (int)mode << " " << kernel << " " << pause;
}

TEST(ArbiterDebts, OutliveTheAllocationsOfATenant) {
  for (Microseconds pause : {0, 500'000})
    EXPECT_LE(
        share_with_a_session_for_each_kernel({ComputeMode::shared, 10}, 400'000, pause, false),
        13.0);
}

TEST(ArbiterDebts, AccountThatLeftIsForgottenWhenItsDebtIsPaid) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::shared, 50}, 0);
  arbiter.set_share(kB, {ComputeMode::shared, 50}, 0);
  arbiter.remove(kB, 0);
  arbiter.remove(kA, 100'000);
  EXPECT_TRUE(arbiter.is_settled(100'000)) << "it had the GPU for itself";
  arbiter.set_share(kA, {ComputeMode::shared, 50}, 100'000);
  arbiter.set_share(kB, {ComputeMode::shared, 50}, 100'000);
  arbiter.remove(kA, 200'000);
  arbiter.remove(kB, 200'000);
  EXPECT_FALSE(arbiter.is_settled(299'000));
  EXPECT_TRUE(arbiter.is_settled(400'000));
}

// The accounts always have work, in kernels of 1 ms. Returns how long the first one had the GPU.
Microseconds time_of_first(Arbiter& arbiter, const std::vector<Arbiter::Id>& accounts,
                           Microseconds begin, Microseconds end) {
  Microseconds of_first = 0;
  for (Microseconds now = begin; now < end; now += 1000) {
    for (auto& id : accounts) arbiter.want(id, now);
    arbiter.advance(now);
    if (!arbiter.holder()) continue;
    Arbiter::Id holder = arbiter.holder();
    of_first += holder == accounts.front() ? 1000 : 0;
    if (arbiter.is_revoked()) arbiter.drained(holder, true, now);
  }
  return of_first;
}

TEST(ArbiterDebts, ModeOfAnAllocationCanChange) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::capped, 50}, 0);
  arbiter.set_share(kB, {ComputeMode::shared, 50}, 0);
  Microseconds now = 60 * kSecond;
  time_of_first(arbiter, {kA, kB}, 0, now);
  arbiter.set_share(kA, {ComputeMode::shared, 50}, now);
  EXPECT_GT(time_of_first(arbiter, {kA, kB}, now, now + 1'000'000), 400'000)
      << "no debt of the time before";
}

TEST(ArbiterDebts, GuaranteedTenantOwesARoundAtMostForBeingServedFirst) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::guaranteed, 60}, 0);
  for (auto& id : {kB, kC}) arbiter.set_share(id, {ComputeMode::shared, 60}, 0);
  Microseconds now = 60 * kSecond;
  EXPECT_GT(time_of_first(arbiter, {kA, kB, kC}, 0, now), now * 55 / 100) << "more than a third";
  arbiter.set_share(kA, {ComputeMode::shared, 60}, now);
  EXPECT_GT(time_of_first(arbiter, {kA, kB, kC}, now, now + 2'000'000), 400'000)
      << "microseconds, of two seconds";
}

TEST(ArbiterDebts, CreditOfALargerShareIsLost) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::shared, 90}, 0);
  arbiter.set_share(kB, {ComputeMode::shared, 10}, 0);
  arbiter.want(kB, 0);
  arbiter.drained(kA, true, 0);
  arbiter.set_share(kA, {ComputeMode::shared, 10}, 0);
  arbiter.set_share(kB, {ComputeMode::shared, 90}, 0);
  int turns = 0;
  for (Microseconds now = Arbiter::kTurn; now <= 10 * Arbiter::kTurn; now += Arbiter::kTurn) {
    auto holder = arbiter.holder();
    turns += holder == kA;
    arbiter.advance(now);
    arbiter.drained(holder, true, now);
  }
  EXPECT_LE(turns, 2);
}

// A kernel of the account begins, beside a neighbour that has work since then. Returns the time at
// which it has run for that long.
Microseconds run_kernel(Arbiter& arbiter, const Arbiter::Id& id, const Arbiter::Share& share,
                        Microseconds now, Microseconds duration,
                        uint32_t percent_of_neighbour = 90) {
  arbiter.set_share(kVictim, {ComputeMode::shared, percent_of_neighbour}, now);
  arbiter.set_share(id, share, now);
  arbiter.drained(kVictim, false, now);
  for (; arbiter.holder() != id; now += 1000) arbiter.want(id, now);
  arbiter.want(kVictim, now);
  for (Microseconds end = now + duration; now < end; now += Arbiter::kTurn) arbiter.advance(now);
  return now;
}

// One of kKernel. Returns the time of its end.
Microseconds run_long_kernel(Arbiter& arbiter, const Arbiter::Id& id, const Arbiter::Share& share,
                             Microseconds now, uint32_t percent_of_neighbour = 90) {
  now = run_kernel(arbiter, id, share, now, kKernel, percent_of_neighbour);
  EXPECT_TRUE(arbiter.is_revoked());
  arbiter.drained(id, true, now);
  return now;
}

// The accounts always have work. Returns after what time the first one gets a turn.
Microseconds wait_of_first(Arbiter& arbiter, const std::vector<Arbiter::Id>& accounts,
                           Microseconds begin) {
  Microseconds now = begin;
  for (; arbiter.holder() != accounts.front() && now < begin + 60 * kSecond; now += 1000)
    time_of_first(arbiter, accounts, now, now + 1000);
  return now - begin;
}

// An account of 10 percent waits ten times the time that it owes. Part of its kernel was credit.
void expect_debt(Arbiter& arbiter, const Arbiter::Id& id, Microseconds owed, Microseconds now) {
  Microseconds waited = wait_of_first(arbiter, {id, kVictim}, now);
  EXPECT_GE(waited, 7 * owed);
  EXPECT_LE(waited, 11 * owed);
}

// While the allocation has no session, the clock pays.
TEST(ArbiterDebts, StayWhenTheModeOfAnAllocationChanges) {
  for (auto from : kModes)
    for (auto to : kModes)
      for (Microseconds pause : {Microseconds(0), 2 * kSecond}) {
        SCOPED_TRACE(testing::Message() << (int)from << " to " << (int)to << " " << pause);
        Arbiter arbiter;
        Microseconds now = run_long_kernel(arbiter, kA, {from, 10}, 0);
        if (pause) arbiter.remove(kA, now);
        now += pause;
        arbiter.set_share(kA, {to, 10}, now);
        expect_debt(arbiter, kA, kKernel - pause / 10, now);
      }
}

// A round of credit at the begin and one at the end are large at 100 percent.
TEST(ArbiterDebts, StayWhenTheModeChangesBackAndForth) {
  for (auto from : kModes)
    for (auto to : kModes)
      for (uint32_t percent : {10u, 100u}) {
        SCOPED_TRACE(testing::Message() << (int)from << " to " << (int)to << " " << percent);
        Arbiter arbiter;
        Microseconds now = run_long_kernel(arbiter, kA, {from, percent}, 0);
        for (int i = 0; i < 3; ++i)
          for (auto& share : {Arbiter::Share{to, 10}, {from, percent}, {to, percent}, {from, 10}})
            arbiter.set_share(kA, share, now);
        expect_debt(arbiter, kA, kKernel - 2 * Arbiter::kRound * percent / 100, now);
      }
}

// The mode changes in the middle of a late kernel, which runs beside the turns of the neighbour.
TEST(ArbiterDebts, OfLateAccountsStayWhenTheirModeChanges) {
  for (auto from : kModes)
    for (auto to : kModes) {
      SCOPED_TRACE(testing::Message() << (int)from << " to " << (int)to);
      Arbiter arbiter;
      Microseconds now = run_kernel(arbiter, kA, {from, 10}, 0, 3 * kKernel / 2);
      EXPECT_EQ(arbiter.take_overdue(), kA);
      arbiter.set_share(kA, {to, 10}, now);
      time_of_first(arbiter, {kVictim}, now, now + kKernel / 2);
      now += kKernel / 2;
      arbiter.late_drained(kA, now);
      expect_debt(arbiter, kA, 2 * kKernel, now);
    }
}

// While the tenant has no allocation, the clock pays.
TEST(ArbiterDebts, GoOverToTheNextAllocationOfATenantInAnyMode) {
  for (auto from : kModes)
    for (auto to : kModes)
      for (Microseconds pause : {Microseconds(0), 2 * kSecond}) {
        SCOPED_TRACE(testing::Message() << (int)from << " to " << (int)to << " " << pause);
        Arbiter arbiter;
        Microseconds now = run_long_kernel(arbiter, kA, {from, 10}, 0);
        arbiter.remove(kA, now);
        arbiter.move_debt(kA, kTenant, now);
        now += pause;
        arbiter.set_share(kB, {to, 10}, now);
        arbiter.move_debt(kTenant, kB, now);
        expect_debt(arbiter, kB, kKernel - pause / 10, now);
      }
}

// Two allocations run a long kernel each and end. Returns the time.
Microseconds leave_two_debts(Arbiter& arbiter, const Arbiter::Share& first,
                             const Arbiter::Share& second) {
  Microseconds now = 0;
  for (auto& [id, share] : {std::pair(kA, first), std::pair(kB, second)}) {
    now = run_long_kernel(arbiter, id, share, now);
    arbiter.remove(id, now);
    arbiter.move_debt(id, kTenant, now);
  }
  return now;
}

TEST(ArbiterDebts, OfAllAllocationsOfATenantAddUp) {
  for (auto first : kModes)
    for (auto second : kModes)
      for (auto next : kModes) {
        SCOPED_TRACE(testing::Message() << (int)first << " " << (int)second << " " << (int)next);
        Arbiter arbiter;
        Microseconds now = leave_two_debts(arbiter, {first, 10}, {second, 10});
        arbiter.set_share(kC, {next, 10}, now);
        arbiter.move_debt(kTenant, kC, now);
        expect_debt(arbiter, kC, 2 * kKernel, now);
      }
}

// A large allocation that ended does not pay faster for a small one.
TEST(ArbiterDebts, OfATenantWithoutAnAllocationArePaidAtTheSmallestPercent) {
  for (auto mode : kModes)
    for (auto& order : {std::vector{kA, kB}, {kB, kA}}) {
      Arbiter arbiter;
      Microseconds now = 0;
      for (auto& id : order) {
        now = run_long_kernel(arbiter, id, {mode, 10}, now);
        arbiter.drained(id, false, now);
      }
      arbiter.set_share(kA, {mode, 90}, now);
      arbiter.set_share(kB, {mode, 1}, now);
      for (auto& id : order) {
        arbiter.remove(id, now);
        arbiter.move_debt(id, kTenant, now);
      }
      now += kSecond;
      arbiter.set_share(kC, {mode, 10}, now);
      arbiter.move_debt(kTenant, kC, now);
      expect_debt(arbiter, kC, 2 * kKernel, now);
    }
}

// The credit of the time before is not for them.
TEST(ArbiterDebts, AreTakenOverByAnAllocationThatHasWaited) {
  Arbiter arbiter;
  Microseconds now = run_long_kernel(arbiter, kA, {ComputeMode::capped, 10}, 0);
  arbiter.remove(kA, now);
  arbiter.set_share(kB, {ComputeMode::capped, 10}, now);
  now += 2 * kSecond;
  arbiter.move_debt(kA, kB, now);
  expect_debt(arbiter, kB, kKernel - 2 * kSecond / 10, now);
}

// The neighbour left and came back; the account, too, or not.
TEST(ArbiterDebts, AreNotPaidByTheTimeInWhichTheAccountHasTheGpuForItself) {
  for (auto mode : {ComputeMode::shared, ComputeMode::guaranteed})
    for (bool leaves : {false, true}) {
      SCOPED_TRACE(testing::Message() << (int)mode << " " << leaves);
      Arbiter arbiter;
      Microseconds now = run_long_kernel(arbiter, kA, {mode, 10}, 0);
      arbiter.remove(kVictim, now);
      now += 10 * kSecond;
      if (leaves) arbiter.remove(kA, now);
      arbiter.set_share(kVictim, {ComputeMode::shared, 90}, now);
      arbiter.set_share(kA, {mode, 10}, now);
      arbiter.want(kVictim, now);
      arbiter.drained(kA, true, now);
      expect_debt(arbiter, kA, kKernel, now);
    }
}

// A neighbour is there, without work. Returns the time of the end.
Microseconds use_time_that_others_leave(Arbiter& arbiter, const Arbiter::Id& id) {
  arbiter.set_share(id, {ComputeMode::guaranteed, 10}, 0);
  arbiter.set_share(kVictim, {ComputeMode::shared, 90}, 0);
  arbiter.drained(kVictim, false, 0);
  EXPECT_GT(time_of_first(arbiter, {id}, 0, 60 * kSecond), 59 * kSecond);
  return 60 * kSecond;
}

TEST(ArbiterDebts, AreNotMadeByTheUseOfTimeThatOthersLeave) {
  Arbiter arbiter;
  Microseconds now = use_time_that_others_leave(arbiter, kA);
  arbiter.remove(kA, now);
  arbiter.remove(kVictim, now);
  EXPECT_TRUE(arbiter.is_settled(now + kSecond));
}

// It is served first again, within its percent.
TEST(ArbiterDebts, NeighbourLosesNothingWhenAGuaranteedTenantChangesItsModeAfterUsingIdleTime) {
  for (auto to : kModes) {
    Arbiter arbiter;
    Microseconds begin = use_time_that_others_leave(arbiter, kA), of_neighbour = 0;
    for (Microseconds now = begin; now < begin + 10 * kSecond; now += kSecond / 2) {
      for (auto mode : {to, ComputeMode::guaranteed}) arbiter.set_share(kA, {mode, 10}, now);
      of_neighbour += time_of_first(arbiter, {kVictim, kA}, now, now + kSecond / 2);
    }
    EXPECT_GE(of_neighbour, 89 * kSecond / 10) << (int)to;
  }
}

// Rounds of the neighbours are short, so they pay sooner than the clock.
TEST(ArbiterDebts, OfATenantWithoutACapArePaidByRoundsAlsoAtACapOf100Percent) {
  for (auto& order : {std::vector{kA, kB}, {kB, kA}}) {
    Arbiter arbiter;
    Microseconds now = 0;
    for (auto& id : order) {
      now = run_long_kernel(arbiter, id, {ComputeMode::shared, 10}, now);
      arbiter.drained(id, false, now);
    }
    arbiter.set_share(kA, {ComputeMode::capped, 100}, now);
    arbiter.set_share(kB, {ComputeMode::shared, 50}, now);
    for (auto& id : order) {
      arbiter.remove(id, now);
      arbiter.move_debt(id, kTenant, now);
    }
    for (auto& id : {kVictim, kSteady}) arbiter.set_share(id, {ComputeMode::shared, 10}, now);
    time_of_first(arbiter, {kVictim, kSteady}, now, now + kSecond / 2);
    now += kSecond / 2;
    arbiter.set_share(kC, {ComputeMode::shared, 10}, now);
    arbiter.move_debt(kTenant, kC, now);
    EXPECT_LE(wait_of_first(arbiter, {kC, kVictim, kSteady}, now), 200'000);
  }
}

// Rounds of neighbours with small shares are short.
TEST(ArbiterDebts, OfACappedAllocationAreNotPaidByRounds) {
  for (auto first : kModes)
    for (auto second : kModes) {
      if (first != ComputeMode::capped && second != ComputeMode::capped) continue;
      Arbiter arbiter;
      Microseconds now = leave_two_debts(arbiter, {first, 10}, {second, 10});
      for (auto& id : {kVictim, kSteady}) arbiter.set_share(id, {ComputeMode::shared, 10}, now);
      time_of_first(arbiter, {kVictim, kSteady}, now, now + 2 * kSecond);
      now += 2 * kSecond;
      arbiter.set_share(kC, {ComputeMode::capped, 10}, now);
      arbiter.move_debt(kTenant, kC, now);
      expect_debt(arbiter, kC, 2 * kKernel - 2 * kSecond / 10, now);
    }
}

// Returns what a neighbour of 10 percent gets, in percent of the time from the begin of a kernel
// until its account, which changes its percent after it, has a turn again.
double share_of_neighbour_until_paid(uint32_t percent, uint32_t next) {
  Arbiter arbiter;
  Microseconds end = run_long_kernel(arbiter, kA, {ComputeMode::shared, percent}, 0, 10);
  std::vector<Arbiter::Id> others{kVictim};
  arbiter.set_share(kA, {ComputeMode::shared, next}, end);
  if (next < 90) {
    others.push_back(kSteady);
    arbiter.set_share(kSteady, {ComputeMode::shared, 90 - next}, end);
  }
  Microseconds now = end, got = 0;
  for (; arbiter.holder() != kA; now += 1000) {
    arbiter.want(kA, now);
    got += time_of_first(arbiter, others, now, now + 1000);
  }
  return 100.0 * (double)got / (double)(now - end + kKernel);
}

TEST(ArbiterDebts, NeighbourGetsItsPercentAlsoIfTheDebtIsPaidByAnotherShare) {
  for (uint32_t percent : {10u, 50u, 90u})
    for (uint32_t next : {10u, 50u, 90u})
      EXPECT_GE(share_of_neighbour_until_paid(percent, next), 8.5) << percent << " " << next;
}

TEST(ArbiterDebts, TimeBeforeAResizeCountsByThePercentOfThen) {
  Arbiter grown;
  Microseconds end = run_long_kernel(grown, kA, {ComputeMode::capped, 10}, 0) + kSecond;
  grown.set_share(kA, {ComputeMode::capped, 90}, end);
  EXPECT_GE(wait_of_first(grown, {kA, kVictim}, end), 200'000);
  for (auto mode : {ComputeMode::capped, ComputeMode::guaranteed}) {
    Arbiter shrunk;
    Microseconds now = run_long_kernel(shrunk, kA, {mode, 90}, 0) + kKernel;
    shrunk.set_share(kA, {mode, 10}, now);
    EXPECT_LE(wait_of_first(shrunk, {kA, kVictim}, now), 50'000) << (int)mode;
  }
}

TEST(ArbiterDebts, CreditByTheClockOfALargerShareIsLost) {
  for (auto mode : {ComputeMode::capped, ComputeMode::guaranteed}) {
    Arbiter arbiter;
    constexpr Microseconds kLongTurn = 100'000;
    arbiter.set_share(kVictim, {ComputeMode::shared, 100}, 0);
    arbiter.set_share(kA, {mode, 90}, 0);
    arbiter.want(kA, 0);
    arbiter.advance(Arbiter::kTurn);
    arbiter.advance(kLongTurn);
    arbiter.set_share(kA, {mode, 10}, kLongTurn);
    arbiter.drained(kVictim, true, kLongTurn);
    EXPECT_LE(time_of_first(arbiter, {kA, kVictim}, kLongTurn, 2 * kLongTurn), 45'000) << (int)mode;
  }
}

}  // namespace
}  // namespace busbar::launcher
