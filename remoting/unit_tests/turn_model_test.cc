// Shares and idle time of tenants in simulated time, with faults that are planted.
#include <gtest/gtest.h>

#include <cmath>

#include "unit_tests/turn_tenants.h"

namespace busbar::model {
namespace {

constexpr double kMostIdle = 5;           // percent, beside programs with few records
constexpr double kMostErrorOfPauses = 2;  // a notice makes each pause longer
constexpr double kMostErrorOfMixed = 6;   // over a second, with kernels of kLong
// Until the longest kernels of mixed_kernels() are known, and what they overran is paid for.
constexpr Nanoseconds kWarmUpOfMixed = 30 * kSecond;

TEST(TurnModel, EqualKernelsGetTheirShares) {
  for (Nanoseconds length : {kShort, 2 * kMillisecond, kLong}) {
    std::vector<Tenant> tenants{{30, repeat(kernels(length))}, {70, repeat(kernels(length))}};
    EXPECT_LE(error_of(Tenants(tenants)), kMostError) << length << " ns";
  }
}

// The lengths of one kernel differ: they depend on its arguments.
std::vector<Step> mixed_kernels() {
  std::vector<Step> steps(3000, {Item::work, 16, 0, kShort, 1});
  steps.insert(steps.end(), 100, {Item::work, 16, 0, kLong, 1});
  return steps;
}

double error_of_mixed(Planted planted) {
  std::vector<Tenant> tenants{{30, repeat(mixed_kernels(), 3100)}, {70, repeat(kernels(kShort))}};
  return error_of(Tenants(tenants, planted, kWarmUpOfMixed), kSecond);
}

TEST(TurnModel, MixedLengthsGetTheirShares) {
  EXPECT_LE(error_of_mixed(Planted::none), kMostErrorOfMixed);
}

TEST(TurnModel, NeighbourWithoutWorkCostsNothing) {
  for (Nanoseconds length : {kShort, 2 * kMillisecond}) {
    Tenants running({{50, repeat(kernels(length))}, {50, nullptr}});
    running.run_for(2 * kSecond);
    EXPECT_LE(running.idle, 2) << length << " ns";
  }
}

TEST(TurnModel, TenantWithPausesGetsItsShareOfTheTimeThatItUsesAlone) {
  Burst burst{10, kMillisecond, 3 * kMillisecond};
  for (Nanoseconds length : {kMillisecond, 50 * kMillisecond, 400 * kMillisecond}) {
    Tenants running({{90, bursts(burst)}, {10, repeat(kernels(length))}}, Planted::none, kSecond);
    running.run_for(60 * kSecond);
    EXPECT_GE(running.got[0], 90 * burst.busy() - kMostError) << length << " ns";
    EXPECT_GE(running.got[1], 10 - kMostError) << length << " ns";
  }
}

// It works 10 us and lets the GPU wait for 7 ms.
TEST(TurnModel, PausesCostAsMuchAsWork) {
  Burst burst{1, 10 * kMicrosecond, 7 * kMillisecond};
  Tenants running({{50, bursts(burst)}, {50, repeat(kernels(50 * kMillisecond))}});
  running.run_for(60 * kSecond);
  EXPECT_GE(running.got[1], 50 - kMostError);
}

// It works 0.5 ms and pauses for 20 ms, also beside the pauses of a larger one.
TEST(TurnModel, PauseCostsASmallTenantNoManyRounds) {
  for (uint32_t large : {0, 40}) {
    std::vector<Tenant> tenants{{5, bursts({5, 100 * kMicrosecond, 20 * kMillisecond})}};
    if (large) tenants.push_back({large, bursts({10, kMillisecond, 30 * kMillisecond})});
    for (uint32_t left = 95 - large; left; left -= 5)
      tenants.push_back({5, repeat(kernels(100 * kMicrosecond), 2)});
    Tenants running(tenants);
    running.run_for(2 * kSecond);
    EXPECT_GE(running.got[0], 0.8) << large;
  }
}

// The other one owes for pauses that it used when the first one has none any more.
TEST(TurnModel, TenantIsNotInDebtForEverAfterThePausesOfAnother) {
  auto paused = bursts({10, kMillisecond, 20 * kMillisecond});
  auto steady = repeat(kernels(kMillisecond));
  auto first = [paused, steady](Session& s) {
    (g_now < 40 * kSecond ? paused : steady)(s);
  };
  Tenants running({{90, first}, {10, repeat(kernels(2 * kMillisecond))}}, Planted::none,
                  45 * kSecond);
  running.run_for(kMeasured);
  EXPECT_GE(running.got[1], 10 - kMostError);
}

// The first one has pauses of more than 8 ms. What others drain after them is paid for.
TEST(TurnModel, TenantInDebtTakesNoPausesFromOthers) {
  Program steady = repeat(kernels(30 * kMillisecond));
  Burst small{1, 100 * kMicrosecond, 40 * kMillisecond};
  Burst large{10, kMillisecond, 20 * kMillisecond};
  for (Nanoseconds length : {200 * kMillisecond, 400 * kMillisecond}) {
    Program slow = repeat(kernels(length), 2);
    for (auto& tenants : {std::vector<Tenant>{{5, bursts(small)}, {15, slow}, {80, steady}},
                          std::vector<Tenant>{{50, bursts(large)}, {5, slow}, {45, steady}}}) {
      Tenants running(tenants, Planted::none, 10 * kSecond);
      running.run_for(60 * kSecond);
      EXPECT_LE(running.got[1], tenants[1].percent + kMostErrorOfPauses) << length;
      EXPECT_GE(running.got[2], tenants[2].percent - kMostErrorOfPauses) << length;
    }
  }
}

TEST(TurnModel, LargeTenantKeepsItsShareInLongPausesBesideASmallOne) {
  for (Burst burst :
       {Burst{25, kMillisecond, 11 * kMillisecond}, Burst{10, kMillisecond, 20 * kMillisecond}})
    for (Nanoseconds length : {13 * kMillisecond, 50 * kMillisecond, 400 * kMillisecond}) {
      Tenants running({{90, bursts(burst)}, {10, repeat(kernels(length), 19)}}, Planted::none,
                      10 * kSecond);
      running.run_for(60 * kSecond);
      EXPECT_GE(running.got[0], 90 * burst.busy() - kMostErrorOfPauses) << length << " ns";
      EXPECT_GE(running.got[1], 10 - kMostErrorOfPauses) << length << " ns";
    }
}

// The first one works 10 ms and pauses for 20 ms. Its guarantee puts the second one in debt.
TEST(TurnModel, GuaranteedTenantUsesPausesOfOthers) {
  Burst burst{10, kMillisecond, 20 * kMillisecond};
  Tenants running({{50, bursts(burst)},
                   {50, repeat(kernels(kMillisecond), 19), control::ComputeMode::guaranteed}},
                  Planted::none, 10 * kSecond);
  running.run_for(20 * kSecond);
  EXPECT_LE(running.idle, 3);
}

// A hostile session reports the end of its work and asks for a turn again, without any work.
TEST(TurnModel, FalseNoticesOfPausesCostOthersNothing) {
  Node node;
  Session& hostile = node.add(50);
  Session& first = node.add(30);
  Session& second = node.add(20);
  for (Session* s : {&first, &second}) s->start(repeat(kernels(2 * kMillisecond)));
  std::function<void()> notify = [&] {
    hostile.notify(control::TurnOp::drained);
    hostile.notify(control::TurnOp::want);
    node.events.after(100 * kMicrosecond, notify);
  };
  notify();
  node.run_for(5 * kSecond);
  EXPECT_GE(first.process().executed, 5 * kSecond * (30 - kMostError) / 100);
  EXPECT_GE(second.process().executed, 5 * kSecond * (20 - kMostError) / 100);
}

TEST(TurnModel, CappedTenantGetsItsCapBesideOthersAndAlone) {
  for (Nanoseconds length : {20 * kMicrosecond, 2 * kMillisecond}) {
    Tenant capped{30, repeat(kernels(length)), control::ComputeMode::capped};
    Tenant other{70, repeat(kernels(length))};
    for (auto& tenants : {std::vector{capped}, std::vector{capped, other}}) {
      Tenants running(tenants);
      running.run_for(kMeasured);
      EXPECT_LE(std::abs(running.got[0] - 30), kMostError) << tenants.size() << ", " << length;
    }
  }
}

// Longer than the time after which a turn is late and work counts as stalled.
TEST(TurnModel, VeryLongKernelsGetTheirShare) {
  for (Nanoseconds length : {900 * kMillisecond, 1100 * kMillisecond}) {
    Tenants running({{10, repeat(kernels(length), 8)}, {90, repeat(kernels(2 * kMillisecond))}});
    running.run_for(60 * kSecond);
    EXPECT_LE(running.got[0], 12) << length << " ns";
  }
}

// ---- several GPUs ----

// Kernels on two GPUs. Each `count` of them, one GPU waits for the other one, and the other way
// round.
Program on_two_gpus(Nanoseconds length, size_t count) {
  auto round = std::make_shared<uint32_t>(0);
  return [length, count, round](Session& s) {
    while (s.unfinished < kManyRecords) {
      for (uint32_t stream : {16u, 16 + kSecondGpu}) {
        for (size_t i = 0; i < count; ++i) s.submit({Item::work, stream, 0, length, 1});
        s.submit({Item::write, stream, 2 * *round + stream / kSecondGpu});
      }
      for (uint32_t stream : {16u, 16 + kSecondGpu})
        s.submit({Item::wait, stream, 2 * *round + 1 - stream / kSecondGpu});
      ++*round;
    }
  };
}

std::vector<Tenant> tenants_on_two_gpus(uint32_t percent, const Program& on_both,
                                        const Program& first, const Program& second) {
  auto mode = control::ComputeMode::shared;
  return {{percent, on_both, mode, {0, 1}},
          {100 - percent, first, mode, {0}},
          {100 - percent, second, mode, {1}}};
}

// A tenant pays for the time in which it waits until both of its GPUs are free.
TEST(TurnModel, TenantOnTwoGpusCostsOthersOnEachNothing) {
  for (Nanoseconds length : {100 * kMicrosecond, 2 * kMillisecond}) {
    Program first = repeat(kernels(length)), second = repeat(kernels(2 * length));
    Tenants running(tenants_on_two_gpus(30, on_two_gpus(length, 10), first, second));
    running.run_for(kMeasured);
    EXPECT_GE(running.got[0], 20) << length << " ns";
    for (size_t i : {1, 2}) EXPECT_NEAR(running.got[i], 70, kMostError) << length << " ns";
  }
}

// It always has work on the first one.
TEST(TurnModel, GpuThatATenantDoesNotUseIsForOthers) {
  auto steady = [] {
    return repeat(kernels(kMillisecond));
  };
  Tenants running(tenants_on_two_gpus(50, steady(), steady(), steady()));
  running.run_for(kSecond);
  for (size_t i : {0, 1}) EXPECT_NEAR(running.got[i], 50, kMostError) << i;
  EXPECT_GE(running.got[2], 95);
}

// ---- random tenants ----

// One to four kinds of kernels on one to three streams.
std::vector<Step> random_steps(Random& random) {
  std::vector<Step> steps;
  uint64_t streams = 1 + random.below(3);
  for (uint64_t kinds = 1 + random.below(4), kind = 1; kind <= kinds; ++kind) {
    Nanoseconds length = random.between(20e3, 20e6);
    for (uint64_t i = random.below(50); i < 50; ++i)
      steps.push_back({Item::work, 16 + (uint32_t)random.below(streams), 0, length, kind});
  }
  return steps;
}

std::vector<Tenant> random_tenants(Random& random) {
  std::vector<Tenant> tenants;
  uint32_t left = 100;
  for (uint64_t others = 1 + random.below(4); left; --others) {
    uint32_t percent = others ? 1 + (uint32_t)random.below(left - others) : left;
    left -= percent;
    tenants.push_back({percent, repeat(random_steps(random), 1 + random.below(300))});
  }
  return tenants;
}

// Tenants of which some have pauses. Returns how many points one of them gets too little.
double lack_beside_pauses(Random& random) {
  std::vector<Tenant> tenants = random_tenants(random);
  std::vector<double> due;
  for (Tenant& tenant : tenants) {
    due.push_back(tenant.percent);
    if (random.below(3) == 0) continue;
    Burst burst{1 + random.below(40), kMillisecond, random.between(30e3, 12e6)};
    tenant.program = bursts(burst);
    due.back() *= burst.busy();
  }
  Tenants running(tenants);
  running.run_for(2 * kMeasured);
  double lack = 0;
  for (size_t i = 0; i < due.size(); ++i) lack = std::max(lack, due[i] - running.got[i]);
  return lack;
}

TEST(TurnModel, RandomTenantsWithPausesGetTheirShares) {
  Random random(1);
  for (size_t i = 0; i < cases(12); ++i)
    EXPECT_LE(lack_beside_pauses(random), kMostErrorOfPauses) << i;
}

// A session without work that notifies at random. One that works could as well work without turns:
// only a session server that has been taken over sends false notices.
double lack_beside_hostile(Random& random) {
  auto tenants = random_tenants(random);
  tenants.front().program = nullptr;
  std::function<void(Session&)> notify = [&random](Session& s) {
    auto op = (control::TurnOp)random.below(4);
    s.notify(op, random.below(2), (uint32_t)random.below(3));
  };
  Tenants running(tenants);
  running.call_each(0, random.between(20e3, 20e6), notify);
  running.run_for(2 * kMeasured);
  double lack = 0;
  for (size_t i = 1; i < tenants.size(); ++i)
    lack = std::max(lack, tenants[i].percent - running.got[i]);
  return lack;
}

TEST(TurnModel, RandomNoticesCostOthersNothing) {
  Random random(2);
  for (size_t i = 0; i < cases(6); ++i) EXPECT_LE(lack_beside_hostile(random), kMostError) << i;
}

// Steps on both GPUs, with work for each of them in any hundred of steps.
std::vector<Step> random_steps_on_two_gpus(Random& random) {
  auto steps = random_steps(random), others = random_steps(random);
  for (Step& step : others) step.stream += kSecondGpu;
  for (size_t i = 0; i < others.size(); ++i)
    steps.insert(steps.begin() + (long)std::min(2 * i, steps.size()), others[i]);
  return steps;
}

TEST(TurnModel, RandomTenantsOnTwoGpusCostOthersNothing) {
  Random random(3);
  for (size_t i = 0; i < cases(12); ++i) {
    auto both = repeat(random_steps_on_two_gpus(random));
    auto first = repeat(random_steps(random)), second = repeat(random_steps(random));
    auto percent = 10 + (uint32_t)random.below(60);
    Tenants running(tenants_on_two_gpus(percent, both, first, second));
    running.run_for(kMeasured);
    for (size_t t : {1, 2}) EXPECT_GE(running.got[t], 100 - percent - kMostError) << i;
  }
}

// A program with few records leaves the GPU idle in turns of its own. It gets less, and no other
// one gets more.
TEST(TurnModel, RandomTenantsGetTheirShares) {
  Random random(cases(100));
  for (size_t done = 0; done < cases(100);) {
    auto mix = random_tenants(random);
    Tenants running(mix);
    running.run_for(kMeasured);
    for (size_t i = 0; i < mix.size(); ++i)
      EXPECT_LE(running.got[i], mix[i].percent + kMostError) << done << ", " << i;
    EXPECT_LE(running.idle, kMostIdle) << done;
    done += mix.size();
  }
}

TEST(TurnModel, PlantedFaultsAreNoticed) {
  std::vector<Tenant> uneven{{30, repeat(kernels(kShort))}, {70, repeat(kernels(kLong))}};
  EXPECT_GT(error_of(Tenants(uneven, Planted::no_carry)), kMostError);
  EXPECT_GT(error_of_mixed(Planted::count_of_work), kMostErrorOfMixed);
}

}  // namespace
}  // namespace busbar::model
