#include "launcher/arbiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "unit_tests/account_ids.h"

namespace busbar::launcher {
namespace {

using control::ComputeMode;

// A tenant of the model: what it submits, and what it has completed.
struct Tenant {
  Arbiter::Id id;
  Arbiter::Share share;
  Microseconds unit = 1000;   // of its kernels
  Microseconds busy_for = 1;  // it works so long, and then
  Microseconds idle_for = 0;  // it submits nothing
  Microseconds completed = 0;
  Microseconds idle_until = 0, busy_until = 0;
};

// A GPU in simulated time, whose tenants obey: at the end of a turn they drain what they have
// submitted, up to two kernels.
class Model {
 public:
  Model(Arbiter::Carry carry, std::vector<Tenant> tenants)
      : arbiter_(carry), tenants_(std::move(tenants)) {
    for (auto& t : tenants_) {
      arbiter_.set_share(t.id, t.share, now_);
      t.busy_until = t.busy_for;
    }
    for (auto& t : tenants_) arbiter_.want(t.id, now_);
  }

  void run(Microseconds duration) {
    for (Microseconds end = now_ + duration; now_ < end;) step(end);
  }
  // The part of the work that each tenant has completed, in percent of the time.
  std::vector<double> percents() const {
    std::vector<double> list;
    for (auto& t : tenants_) list.push_back(100.0 * (double)t.completed / (double)now_);
    return list;
  }
  Microseconds now() const { return now_; }
  uint32_t turns() const { return arbiter_.turn(); }

 private:
  static constexpr Microseconds kBubble = 60;  // between the work of two tenants
  void wake() {
    for (auto& t : tenants_)
      if (t.idle_until && t.idle_until <= now_) {
        t.idle_until = 0;
        t.busy_until = now_ + t.busy_for;
        arbiter_.want(t.id, now_);
      }
  }
  void step(Microseconds end) {
    wake();
    arbiter_.advance(now_);
    if (!arbiter_.holder()) {
      Microseconds next = std::min(arbiter_.next_deadline(now_), end);
      for (auto& t : tenants_)
        if (t.idle_until) next = std::min(next, t.idle_until);
      now_ = std::max(now_ + 1, next);
      return;
    }
    Tenant& t = *std::ranges::find(tenants_, arbiter_.holder(), &Tenant::id);
    work(t);
  }
  void work(Tenant& t) {
    bool pauses = t.idle_for && now_ >= t.busy_until;
    if (pauses) t.idle_until = now_ + t.idle_for;
    if (arbiter_.is_revoked() || pauses) {
      Microseconds drain = pauses ? 0 : t.unit;
      now_ += drain + kBubble;
      t.completed += drain;
      arbiter_.drained(t.id, !pauses, now_);
      return;
    }
    now_ += t.unit;
    t.completed += t.unit;
  }
  Arbiter arbiter_;
  std::vector<Tenant> tenants_;
  Microseconds now_ = 0;
};

constexpr Microseconds kTenSeconds = 10'000'000;

Tenant tenant(const Arbiter::Id& id, uint32_t percent, Microseconds unit,
              ComputeMode mode = ComputeMode::shared) {
  return {id, {mode, percent}, unit};
}

double error_of(Arbiter::Carry carry, const std::vector<Tenant>& tenants) {
  Model model(carry, tenants);
  model.run(kTenSeconds);
  auto got = model.percents();
  double total = 0, worst = 0;
  for (double g : got) total += g;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(100 * got[i] / total - tenants[i].share.percent));
  return worst;
}

const std::vector<std::vector<Tenant>> kMixes{
    {tenant(kA, 30, 20), tenant(kB, 70, 20)},
    {tenant(kA, 10, 50'000), tenant(kB, 90, 20)},
    {tenant(kA, 10, 20), tenant(kB, 90, 50'000)},
    {tenant(kA, 50, 2000), tenant(kB, 50, 20)},
    {tenant(kA, 25, 2000), tenant(kB, 25, 20), tenant(kC, 50, 7000)},
    {tenant(kA, 15, 5000), tenant(kB, 35, 20), tenant(kC, 20, 1000), tenant(kD, 30, 20'000)},
    {tenant(kA, 1, 2000), tenant(kB, 99, 2000)},
};

TEST(Arbiter, SharesOfSaturatedTenantsHoldWithinOnePoint) {
  for (auto& mix : kMixes) EXPECT_LE(error_of(Arbiter::Carry::yes, mix), 1.0);
}

TEST(Arbiter, ModelNoticesArbiterWithoutCarryOver) {
  double worst = 0;
  for (auto& mix : kMixes) worst = std::max(worst, error_of(Arbiter::Carry::no, mix));
  EXPECT_GT(worst, 10.0);
}

TEST(Arbiter, RandomSharesAndKernelsHoldWithinOnePoint) {
  std::mt19937 random(7);
  auto between = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 100; ++round) {
    std::vector<Tenant> tenants;
    for (int left = 100; left > 0;) {
      int percent = tenants.size() == 5 ? left : std::min(left, between(5, 60));
      auto mode = between(0, 1) ? ComputeMode::shared : ComputeMode::guaranteed;
      tenants.push_back({{tenants.size() + 1},
                         {mode, (uint32_t)percent},
                         between(0, 1) ? between(20, 500) : between(500, 40'000)});
      left -= percent;
    }
    EXPECT_LE(error_of(Arbiter::Carry::yes, tenants), 1.0) << "round " << round;
  }
}

TEST(Arbiter, CappedTenantAloneGetsItsPercentAndNoMore) {
  for (uint32_t percent : {1u, 10u, 30u, 99u})
    for (Microseconds unit : {20, 2000, 50'000}) {
      Model model(Arbiter::Carry::yes, {tenant(kA, percent, unit, ComputeMode::capped)});
      model.run(kTenSeconds);
      EXPECT_NEAR(model.percents()[0], percent, 1.0) << unit;
    }
}

TEST(Arbiter, SharedTenantUsesWhatCappedNeighbourMayNot) {
  Model model(Arbiter::Carry::yes,
              {tenant(kA, 30, 2000, ComputeMode::capped), tenant(kB, 10, 2000)});
  model.run(kTenSeconds);
  EXPECT_NEAR(model.percents()[0], 30, 1.0);
  EXPECT_GT(model.percents()[1], 67.0);
}

TEST(Arbiter, IdleCreditDoesNotAccumulate) {
  Tenant bursty = tenant(kA, 50, 1000);
  bursty.idle_for = 900'000;
  bursty.busy_for = 1'000'000;
  Model model(Arbiter::Carry::yes, {bursty, tenant(kB, 50, 1000)});
  model.run(kTenSeconds);
  EXPECT_GT(model.percents()[1], 65.0) << "the idle time was not saved for later";
  EXPECT_LT(model.percents()[0], 30.0);
}

TEST(Arbiter, GuaranteedTenantIsServedFirst) {
  Model model(Arbiter::Carry::yes, {tenant(kA, 60, 1000, ComputeMode::guaranteed),
                                    tenant(kB, 60, 1000), tenant(kC, 60, 1000)});
  model.run(kTenSeconds);
  EXPECT_GE(model.percents()[0], 59.0);
  EXPECT_NEAR(model.percents()[1], model.percents()[2], 1.0);
}

// Returns the longest time from one turn of the first account to its next one. All have work.
Microseconds longest_wait(const std::vector<uint32_t>& percents) {
  Arbiter arbiter;
  std::vector<Arbiter::Id> ids;
  for (uint32_t percent : percents) {
    ids.push_back({ids.size() + 1});
    arbiter.set_share(ids.back(), {ComputeMode::shared, percent}, 0);
  }
  Microseconds waited = 0, longest = 0;
  for (Microseconds now = 0; now < kTenSeconds; now += 1000) {
    for (auto& id : ids) arbiter.want(id, now);
    if (arbiter.is_revoked()) arbiter.drained(arbiter.holder(), true, now);
    waited = arbiter.holder() == ids.front() ? 0 : waited + 1000;
    longest = std::max(longest, waited);
  }
  return longest;
}

TEST(Arbiter, TurnsOfAnAccountAreSpreadOverTheRound) {
  EXPECT_LE(longest_wait({30, 70}), 3 * Arbiter::kTurn);
  EXPECT_LE(longest_wait({45, 35, 20}), 2 * Arbiter::kTurn);
  EXPECT_LE(longest_wait({20, 20, 20, 20, 20}), 5 * Arbiter::kTurn);
}

TEST(Arbiter, ManySmallAccountsDoNotShortenTheTurns) {
  std::vector<Tenant> tenants;
  for (uint64_t i = 1; i <= 100; ++i) tenants.push_back(tenant({i}, 1, 20));
  EXPECT_LE(error_of(Arbiter::Carry::yes, tenants), 0.1);
  Model model(Arbiter::Carry::yes, tenants);
  model.run(kTenSeconds);
  EXPECT_LE(model.turns(), kTenSeconds / Arbiter::kLeastTurn);
}

TEST(Arbiter, OneAllocationAloneNeedsNoTurns) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::shared, 10}, 0);
  EXPECT_TRUE(arbiter.is_open());
  arbiter.set_share(kB, {ComputeMode::shared, 90}, 10);
  EXPECT_FALSE(arbiter.is_open());
  ASSERT_TRUE(arbiter.holder());
  EXPECT_EQ(arbiter.holder(), kA) << "its work may run already";
  arbiter.remove(kB, 20);
  EXPECT_TRUE(arbiter.is_open());
  arbiter.set_share(kA, {ComputeMode::capped, 10}, 30);
  EXPECT_FALSE(arbiter.is_open());
}

TEST(Arbiter, HolderGoesOnWhileNobodyElseWants) {
  Arbiter arbiter;
  arbiter.set_share(kA, {}, 0);
  arbiter.set_share(kB, {}, 0);
  for (Microseconds now = 0; now < 1'000'000; now += 1000) {
    arbiter.advance(now);
    ASSERT_FALSE(arbiter.is_revoked());
  }
  arbiter.want(kB, 1'000'000);
  arbiter.advance(1'000'000 + Arbiter::kTurn);
  EXPECT_TRUE(arbiter.is_revoked());
  arbiter.drained(kA, true, 1'011'000);
  EXPECT_EQ(arbiter.holder(), kB);
}

TEST(Arbiter, TurnThatDoesNotDrainIsOpenedToTheNext) {
  Arbiter arbiter;
  arbiter.set_share(kA, {}, 0);
  arbiter.set_share(kB, {}, 0);
  arbiter.want(kB, 0);
  arbiter.advance(Arbiter::kTurn);
  ASSERT_TRUE(arbiter.is_revoked());
  arbiter.advance(Arbiter::kTurn + Arbiter::kDrain - 1);
  EXPECT_EQ(arbiter.holder(), kA);
  EXPECT_FALSE(arbiter.take_overdue());
  arbiter.advance(Arbiter::kTurn + Arbiter::kDrain);
  EXPECT_EQ(arbiter.holder(), kB);
  EXPECT_EQ(arbiter.take_overdue(), kA);
  EXPECT_GE(arbiter.charged(kA), Arbiter::kDrain) << "it pays for the wait";
}

// Returns the share of the GPU, in percent, of a tenant whose kernels last longer than a turn may
// be late. It always has one; the other one always has work, in kernels of 1 ms. The driver slices
// the time while both run.
double share_with_kernels_that_are_late(Arbiter::Share share, Microseconds kernel) {
  Arbiter arbiter;
  arbiter.set_share(kHostile, share, 0);
  arbiter.set_share(kVictim, {ComputeMode::shared, 100 - share.percent}, 0);
  Microseconds used[2] = {}, left = 0, now = 0;
  bool is_late = false;
  for (; now < 60 * kTenSeconds; now += 1000) {
    for (auto& id : {kHostile, kVictim}) arbiter.want(id, now);
    arbiter.advance(now);
    is_late |= arbiter.take_overdue() == kHostile;
    bool victim_runs = arbiter.holder() == kVictim;
    bool holds = arbiter.holder() && !victim_runs;
    if (holds && !left && !arbiter.is_revoked()) left = kernel;
    Microseconds slice = victim_runs && left ? 500 : 1000;
    if (victim_runs) used[1] += slice;
    if (left) {
      used[0] += std::min(left, slice);
      left -= std::min(left, slice);
      if (!left && holds) arbiter.drained(kHostile, true, now);
      if (!left && is_late) arbiter.late_drained(kHostile, now);
      is_late &= left != 0;
    }
    if (victim_runs && arbiter.is_revoked()) arbiter.drained(kVictim, true, now);
  }
  return 100.0 * (double)used[0] / (double)(used[0] + used[1]);
}

TEST(Arbiter, LateTurnCostsUntilItHasDrained) {
  for (auto mode : {ComputeMode::shared, ComputeMode::guaranteed, ComputeMode::capped})
    for (Microseconds kernel : {700'000, 2'000'000, 10'000'000})
      EXPECT_LE(share_with_kernels_that_are_late({mode, 10}, kernel), 12.0)
          << (int)mode << " " << kernel;
}

TEST(Arbiter, LateTurnCostsNothingWhileNobodyElseWantsTheGpu) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::shared, 50}, 0);
  arbiter.set_share(kB, {ComputeMode::shared, 50}, 0);
  arbiter.want(kB, 0);
  Microseconds late = Arbiter::kTurn + Arbiter::kDrain;
  arbiter.advance(Arbiter::kTurn);
  arbiter.advance(late);
  ASSERT_EQ(arbiter.holder(), kB);
  arbiter.drained(kB, false, late);
  Microseconds now = late;
  for (; now < kTenSeconds; now += 1000) arbiter.advance(now);
  EXPECT_EQ(arbiter.holder(), kA) << "it goes on in a turn";
  arbiter.want(kB, now);
  arbiter.advance(now + Arbiter::kTurn);
  arbiter.drained(kA, true, now + Arbiter::kTurn);
  EXPECT_EQ(arbiter.holder(), kB);
  arbiter.advance(now + 3 * Arbiter::kTurn);
  arbiter.drained(kB, true, now + 3 * Arbiter::kTurn);
  EXPECT_EQ(arbiter.holder(), kA) << "it has no debt of ten seconds";
}

TEST(Arbiter, LateCappedAccountAloneGetsTurnsAllTheSame) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::capped, 10}, 0);
  arbiter.want(kA, 0);
  uint32_t before = arbiter.turn();
  for (Microseconds now = 0; now < 60'000'000;) {
    now = std::max(now + 1, arbiter.next_deadline(now));
    arbiter.advance(now);
  }
  EXPECT_GE(arbiter.turn() - before, 50u);
}

TEST(Arbiter, LateTurnEndsWhenTheAccountHasTheGpuForItself) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::capped, 50}, 0);
  arbiter.want(kA, 0);
  Microseconds now = 0;
  for (; now < 3'000'000; now += 1000) arbiter.advance(now);
  arbiter.set_share(kA, {ComputeMode::shared, 100}, now);
  now += 3'600'000'000;
  arbiter.set_share(kB, {ComputeMode::shared, 50}, now);
  EXPECT_LT(arbiter.charged(kA), 10'000'000) << "microseconds, of an hour alone";
}

// A session can make the arbiter look at the time as often as it likes.
TEST(Arbiter, CreditByTheClockDoesNotDependOnTheNumberOfLooks) {
  for (Microseconds step : {1, 2, 3, 7})
    for (uint32_t percent : {51u, 67u, 11u, 99u}) {
      Arbiter arbiter;
      arbiter.set_share(kA, {ComputeMode::capped, percent}, 0);
      Microseconds held = 0;
      for (Microseconds now = 0; now < 1'000'000; now += step) {
        arbiter.want(kA, now);
        held += arbiter.holder() ? step : 0;
        if (arbiter.holder() && arbiter.is_revoked()) arbiter.drained(kA, true, now);
      }
      EXPECT_NEAR((double)held / 10'000, percent, 1.5) << step;
    }
}

// What exceeds the credit by the clock is no privilege of a guaranteed account.
TEST(Arbiter, GuaranteedTenantPaysForTurnsThatDoNotEnd) {
  Arbiter arbiter;
  arbiter.set_share(kHostile, {ComputeMode::guaranteed, 10}, 0);
  arbiter.set_share(kVictim, {ComputeMode::shared, 10}, 0);
  Microseconds used[2] = {};
  for (Microseconds now = 0; now < 6 * kTenSeconds; now += 1000) {
    for (auto& id : {kHostile, kVictim}) arbiter.want(id, now);
    arbiter.advance(now);
    if (!arbiter.holder()) continue;
    bool is_victim = arbiter.holder() == kVictim;
    used[is_victim] += 1000;
    if (is_victim && arbiter.is_revoked()) arbiter.drained(kVictim, true, now);
  }
  EXPECT_GT(used[1], used[0] * 8 / 10) << "hostile " << used[0] << " victim " << used[1];
}

// Its other GPUs may be free much later.
TEST(Arbiter, JointAccountThatIsDueHasNoDeadline) {
  Arbiter arbiter;
  arbiter.set_share(kA, {ComputeMode::capped, 50}, 0);
  arbiter.set_joint(kA, true);
  arbiter.want(kA, 0);
  Microseconds due = arbiter.next_deadline(0);
  EXPECT_LE(due, 2 * Arbiter::kTurn + 1);
  arbiter.advance(due);
  ASSERT_TRUE(arbiter.is_due(kA));
  EXPECT_EQ(arbiter.next_deadline(due), Arbiter::kNever);
}

}  // namespace
}  // namespace busbar::launcher
