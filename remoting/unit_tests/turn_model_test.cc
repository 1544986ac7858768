// Shares, stalls and idle time of tenants in simulated time, with faults that are planted.
#include "unit_tests/turn_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace busbar::model {
namespace {

constexpr double kMostError = 1;          // points, over kMeasured
constexpr double kMostErrorOfPauses = 2;  // a notice makes each pause longer
constexpr double kMostErrorOfMixed = 6;   // over a second, with kernels of kLong
constexpr Nanoseconds kShort = 8 * kMicrosecond, kLong = 20 * kMillisecond;
constexpr Nanoseconds kWarmUp = 2 * kSecond, kMeasured = 10 * kSecond;
// Until the longest kernels of mixed_kernels() are known, and what they overran is paid for.
constexpr Nanoseconds kWarmUpOfMixed = 30 * kSecond;
constexpr uint64_t kManyRecords = 600;

using Program = std::function<void(Session&)>;

// Keeps so many records of a cycle unfinished.
Program repeat(std::vector<Step> cycle, uint64_t records = kManyRecords) {
  auto at = std::make_shared<size_t>(0);
  return [cycle = std::move(cycle), records, at](Session& s) {
    while (s.unfinished < records) s.submit(cycle[(*at)++ % cycle.size()]);
  };
}

std::vector<Step> kernels(Nanoseconds length, size_t count = 1) {
  return std::vector<Step>(count, {Item::work, 16, 0, length, (uint64_t)length});
}

struct Tenant {
  uint32_t percent;
  Program program;
  control::ComputeMode mode = control::ComputeMode::shared;
};

// Tenants that share a GPU, and the percentage of its time that each gets.
class Tenants {
 public:
  explicit Tenants(const std::vector<Tenant>& tenants, Planted planted = Planted::none,
                   Nanoseconds warm_up = kWarmUp)
      : tenants_(tenants), node_(planted) {
    for (auto& t : tenants) sessions_.push_back(&node_.add(t.percent, t.mode));
    for (size_t i = 0; i < tenants.size(); ++i) sessions_[i]->start(tenants[i].program);
    node_.run_for(warm_up);
  }
  void run_for(Nanoseconds duration) {
    auto executed = [&] {
      std::vector<Nanoseconds> times{node_.gpu.idle()};
      for (Session* s : sessions_) times.push_back(s->process().executed);
      return times;
    };
    auto before = executed();
    node_.run_for(duration);
    auto after = executed();
    for (size_t i = 0; i < after.size(); ++i) after[i] = after[i] - before[i];
    auto percent = [&](Nanoseconds part) {
      return 100.0 * (double)part / (double)duration;
    };
    idle = percent(after[0]);
    got.clear();
    for (size_t i = 1; i < after.size(); ++i) got.push_back(percent(after[i]));
  }
  // The largest difference, in points, between what a tenant got and its share.
  double error() const {
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::abs(got[i] - tenants_[i].percent));
    return largest;
  }
  std::vector<double> got;
  double idle = 0;

 private:
  const std::vector<Tenant> tenants_;
  Node node_;
  std::vector<Session*> sessions_;
};

// The largest error in windows of this length.
double error_of(Tenants&& running, Nanoseconds window = kMeasured) {
  double error = 0;
  for (Nanoseconds at = 0; at < kMeasured; at += window) {
    running.run_for(window);
    error = std::max(error, running.error());
  }
  return error;
}

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

// Keeps a stream waiting for ever beside its kernels.
Program with_endless_wait(Program program) {
  auto started = std::make_shared<bool>(false);
  return [program = std::move(program), started](Session& s) {
    if (!std::exchange(*started, true)) s.submit({Item::wait, 40, 77});
    program(s);
  };
}

std::vector<Tenant> tenants_with_endless_wait() {
  return {{50, with_endless_wait(repeat(kernels(2 * kMillisecond)))},
          {50, repeat(kernels(2 * kMillisecond))}};
}

TEST(TurnModel, WaitDoesNotKeepATurn) {
  EXPECT_LE(error_of(Tenants(tenants_with_endless_wait())), kMostError);
}

TEST(TurnModel, NeighbourWithoutWorkCostsNothing) {
  for (Nanoseconds length : {kShort, 2 * kMillisecond}) {
    Tenants running({{50, repeat(kernels(length))}, {50, nullptr}});
    running.run_for(2 * kSecond);
    EXPECT_LE(running.idle, 2) << length << " ns";
  }
}

// A program that has no work for a time after some kernels.
struct Burst {
  uint64_t kernels;
  Nanoseconds length, pause;
  double busy() const {  // alone
    return (double)(kernels * length) / (double)(kernels * length + pause);
  }
};

Program bursts(const Burst& burst) {
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
  Tenant capped{30, repeat(kernels(20 * kMicrosecond)), control::ComputeMode::capped};
  Tenant other{70, repeat(kernels(20 * kMicrosecond))};
  for (auto& tenants : {std::vector{capped}, std::vector{capped, other}}) {
    Tenants running(tenants);
    running.run_for(kMeasured);
    EXPECT_LE(std::abs(running.got[0] - 30), kMostError) << tenants.size();
  }
}

// Streams that wait for flags, with kernels behind the waits, and a later stream that sets them.
std::vector<Step> waits(uint32_t streams, size_t count, Nanoseconds length) {
  std::vector<Step> steps;
  for (uint32_t i = 0; i < streams; ++i) {
    steps.push_back({Item::wait, 20 + i, i});
    steps.insert(steps.end(), count, {Item::work, 20 + i, 0, length, 5});
  }
  for (uint32_t i = 0; i < streams; ++i) {
    steps.push_back({Item::work, 19, 0, length, 6});
    steps.push_back({Item::write, 19, i});
  }
  return steps;
}

// Returns whether the waits end beside a busy neighbour. Kernels of the given length run before, so
// that the gate expects this length.
bool waits_end(const std::vector<Step>& steps, Nanoseconds length) {
  Node node;
  Session& session = node.add(50);
  node.add(50).start(repeat(kernels(100 * kMicrosecond)));
  session.start(repeat(kernels(length), 6));
  node.run_for(kSecond);
  session.start(nullptr);
  auto has_ended = [&] {
    return !session.unfinished;
  };
  if (!node.run_until(has_ended, 10 * kSecond)) return false;
  for (auto& step : steps) session.submit(step);
  return node.run_until(has_ended, 60 * kSecond);
}

bool all_waits_end() {
  for (Nanoseconds length : {kShort, 2 * kMillisecond, kLong})
    for (uint32_t streams : {1, 4})
      for (size_t count : {1, 10})
        if (!waits_end(waits(streams, count, length), length)) return false;
  return true;
}

// Pairs of streams: one waits for each kernel of the other one, and the other way round.
TEST(TurnModel, WaitsForWorkWithoutATurnCostNothing) {
  std::vector<Step> steps;
  for (uint32_t flag = 0; flag < 4000; ++flag) {
    steps.push_back({Item::wait, 20, flag});
    steps.push_back({Item::work, 20, 0, kMillisecond, 5});
    steps.push_back({Item::work, 21, 0, kMillisecond, 6});
    steps.push_back({Item::write, 21, flag});
  }
  auto program = [steps, at = size_t{0}](Session& s) mutable {
    while (s.unfinished < 200 && at < steps.size()) s.submit(steps[at++]);
  };
  EXPECT_LE(error_of(Tenants({{30, program}, {70, repeat(kernels(kMillisecond))}})), kMostError);
}

// Longer than the time after which a turn is late and work counts as stalled.
TEST(TurnModel, VeryLongKernelsGetTheirShare) {
  for (Nanoseconds length : {900 * kMillisecond, 1100 * kMillisecond}) {
    Tenants running({{10, repeat(kernels(length), 8)}, {90, repeat(kernels(2 * kMillisecond))}});
    running.run_for(60 * kSecond);
    EXPECT_LE(running.got[0], 12) << length << " ns";
  }
}

// Of these no time is known, and none can be measured before the last one is submitted.
TEST(TurnModel, ManyUnknownKernelsBehindWaitsEnd) {
  std::vector<Step> steps;
  for (uint32_t stream = 20; stream < 28; ++stream) {
    steps.push_back({Item::wait, stream, 0});
    for (uint64_t i = 0; i < 60; ++i)
      steps.push_back({Item::work, stream, 0, 100 * kMicrosecond, 1000 + 100 * stream + i});
  }
  steps.push_back({Item::work, 19, 0, 100 * kMicrosecond, 6});
  steps.push_back({Item::write, 19, 0});
  EXPECT_TRUE(waits_end(steps, kMillisecond));
}

TEST(TurnModel, WorkThatWaitsForWorkWithoutATurnEnds) {
  EXPECT_TRUE(all_waits_end());
}

// ---- random tenants ----

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
  for (int i = 0; i < 12; ++i) EXPECT_LE(lack_beside_pauses(random), kMostErrorOfPauses) << i;
}

double largest_error(size_t tenants) {
  Random random(tenants);
  double error = 0;
  for (size_t done = 0; done < tenants;) {
    auto mix = random_tenants(random);
    error = std::max(error, error_of(Tenants(mix)));
    done += mix.size();
  }
  return error;
}

TEST(TurnModel, RandomTenantsGetTheirShares) {
  const char* more = getenv("BUSBAR_TURN_TENANTS");
  EXPECT_LE(largest_error(more ? strtoul(more, nullptr, 10) : 100), kMostError);
}

// Kernels, and waits of five streams for flags that they may set. At the end another stream sets
// all flags, so the program ends if every record is submitted.
std::vector<Step> random_waits(Random& random) {
  std::vector<Step> steps;
  auto add = [&](Item::Kind kind, uint32_t stream, uint32_t flag) {
    Nanoseconds length = random.between(8e3, 5e6);
    steps.push_back({kind, stream, flag, length, 1 + random.below(3)});
  };
  for (uint64_t i = 0; i < 40; ++i) {
    std::vector<Item::Kind> kinds{Item::work, Item::work, Item::wait, Item::write};
    add(kinds[random.below(4)], 16 + (uint32_t)random.below(5), (uint32_t)random.below(8));
  }
  for (uint32_t flag = 0; flag < 8; ++flag) {
    add(Item::work, 30, 0);
    add(Item::write, 30, flag);
  }
  return steps;
}

bool ends_beside_another(const std::vector<Step>& steps) {
  Node node;
  Session& session = node.add(50);
  node.add(50).start(repeat(kernels(100 * kMicrosecond)));
  node.run_for(100 * kMillisecond);
  for (auto& step : steps) session.submit(step);
  return node.run_until([&] { return !session.unfinished; }, 60 * kSecond);
}

size_t hanging(size_t programs) {
  Random random(programs);
  size_t found = 0;
  for (size_t i = 0; i < programs; ++i) found += !ends_beside_another(random_waits(random));
  return found;
}

TEST(TurnModel, ProgramsWithWaitsEndBesideOthers) {
  EXPECT_EQ(hanging(100), 0u);
}

TEST(TurnModel, PlantedFaultsAreNoticed) {
  std::vector<Tenant> uneven{{30, repeat(kernels(kShort))}, {70, repeat(kernels(kLong))}};
  EXPECT_GT(error_of(Tenants(uneven, Planted::no_carry)), kMostError);
  EXPECT_GT(error_of_mixed(Planted::count_of_work), kMostErrorOfMixed);
}

}  // namespace
}  // namespace busbar::model
