// Programs whose work waits for other work, in simulated time beside another tenant: each ends.
#include <gtest/gtest.h>

#include "unit_tests/turn_tenants.h"

namespace busbar::model {
namespace {

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

TEST(TurnWaits, WaitDoesNotKeepATurn) {
  EXPECT_LE(error_of(Tenants(tenants_with_endless_wait())), kMostError);
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
TEST(TurnWaits, WaitsForWorkWithoutATurnCostNothing) {
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

// Of these no time is known, and none can be measured before the last one is submitted.
TEST(TurnWaits, ManyUnknownKernelsBehindWaitsEnd) {
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

TEST(TurnWaits, WorkThatWaitsForWorkWithoutATurnEnds) {
  EXPECT_TRUE(all_waits_end());
}

// Records of two sessions of one allocation, which share their flags.
struct Records {
  std::vector<Step> of[2];
};

// Kernels, waits for values that either session may write, events, and host functions, on five
// streams of each GPU. At the end another stream writes all values, so both programs end if every
// record is submitted.
Records random_waits(Random& random, size_t gpus) {
  Records records;
  auto add = [&](size_t session, Item::Kind kind, uint32_t stream, uint32_t flag) {
    Nanoseconds length = random.between(8e3, 5e6);
    records.of[session].push_back({kind, stream, flag, length, 1 + random.below(3)});
  };
  for (uint64_t i = 0; i < 60; ++i) {
    std::vector<Item::Kind> kinds{Item::work,  Item::work,       Item::work, Item::wait,
                                  Item::write, Item::wait_event, Item::host, Item::event};
    Item::Kind kind = kinds[random.below(kinds.size())];
    auto stream = (uint32_t)(16 + random.below(5) + kSecondGpu * random.below(gpus));
    add(random.below(2), kind, stream, (uint32_t)random.below(8));
  }
  for (uint32_t flag = 0; flag < 8; ++flag) {
    add(0, Item::work, 30, 0);
    add(0, Item::write, 30, flag);
  }
  return records;
}

bool ends_beside_others(const Records& records, size_t gpus) {
  Node node(Planted::none, gpus);
  std::vector<size_t> numbers;
  for (size_t i = 0; i < gpus; ++i) numbers.push_back(i);
  Session& first = node.add(50, control::ComputeMode::shared, numbers);
  Session& second = node.add_beside(first);
  for (size_t i : numbers)
    node.add(50, control::ComputeMode::shared, {i}).start(repeat(kernels(100 * kMicrosecond)));
  node.run_for(100 * kMillisecond);
  for (auto& step : records.of[0]) first.submit(step);
  for (auto& step : records.of[1]) second.submit(step);
  return node.run_until([&] { return !first.unfinished && !second.unfinished; }, 60 * kSecond);
}

size_t hanging(size_t programs, size_t gpus) {
  Random random(programs);
  size_t found = 0;
  for (size_t i = 0; i < programs; ++i)
    found += !ends_beside_others(random_waits(random, gpus), gpus);
  return found;
}

TEST(TurnWaits, ProgramsWithWaitsEndBesideOthers) {
  EXPECT_EQ(hanging(cases(100), 1), 0u);
}

TEST(TurnWaits, ProgramsThatWaitAcrossGpusEndBesideOthersOnEach) {
  EXPECT_EQ(hanging(cases(50), 2), 0u);
}

// A program that is slow, so that the GPU waits between its kernels.
TEST(TurnWaits, SlowHostFunctionsCostOthersNothing) {
  for (Nanoseconds length : {kMillisecond, 30 * kMillisecond, kSecond}) {
    std::vector<Step> steps = kernels(kMillisecond);
    steps.push_back({Item::host, 16, 0, length});
    Tenants running({{50, repeat(steps, 20)}, {50, repeat(kernels(kMillisecond))}});
    running.run_for(kMeasured);
    EXPECT_GE(running.got[1], 50 - kMostError) << length << " ns";
  }
}

TEST(TurnWaits, GateThatCountsWaitsIsNoticed) {
  EXPECT_GT(error_of(Tenants(tenants_with_endless_wait(), Planted::counts_waits)), kMostError);
}

}  // namespace
}  // namespace busbar::model
