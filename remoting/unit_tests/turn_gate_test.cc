#include "server/turn_gate.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace busbar::server {
namespace {

using control::turn_word;
using control::TurnNotice;
using control::TurnOp;
using control::TurnState;

constexpr uint64_t kShort = 11, kLong = 12;  // keys of kernels
constexpr int64_t kMillisecond = 1'000'000;
int64_t g_now = 0;

// A gate whose page, arbiter and clock are in the test.
class TurnGateTest : public testing::Test {
 protected:
  TurnGateTest() {
    g_now = 1000 * kMillisecond;
    gate.use(&word);
  }
  // One pass of the executor that tries to submit `records`. Returns how many were submitted.
  uint32_t pass(uint32_t records, uint64_t key = kShort) {
    gate.begin_pass();
    uint32_t submitted = 0;
    WorkBatch batch;
    for (; submitted < records && gate.may_submit({key, ++position}); ++submitted)
      gate.add(batch, key);
    if (submitted) fences.push_back(gate.add_fence(batch));
    gate.end_pass();
    return submitted;
  }
  // All fences complete after so many nanoseconds.
  void complete_all(int64_t after = 0) {
    g_now += after;
    for (auto& batch : fences) gate.complete(batch, backlog);
    fences.clear();
  }
  // In a turn, measures a kernel.
  void learn(uint64_t key, int64_t ns) {
    ASSERT_EQ(pass(1, key), 1u);
    complete_all(ns);
  }
  void show(uint32_t turn, TurnState state) { word = turn_word(turn, state); }
  uint64_t position = 0;
  std::vector<TurnNotice> sent;
  std::atomic<uint32_t> word{0};
  TurnGate gate{3,
                [](void* test, const TurnNotice& notice) {
                  ((TurnGateTest*)test)->sent.push_back(notice);
                  return true;
                },
                this, [] { return g_now; }};
  std::vector<WorkBatch> fences;
  Backlog backlog;
};

TEST_F(TurnGateTest, OpenGateSubmitsWithoutBoundAndSendsNothing) {
  show(0, TurnState::open);
  EXPECT_EQ(pass(1000), 1000u);
  EXPECT_TRUE(sent.empty());
}

TEST_F(TurnGateTest, WorkWithoutTurnIsAskedForOnce) {
  EXPECT_EQ(pass(1), 0u);
  EXPECT_EQ(pass(1), 0u);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op, (uint32_t)TurnOp::want);
  EXPECT_EQ(sent[0].partition, 3u);
}

TEST_F(TurnGateTest, UnknownWorkIsSubmittedAlone) {
  show(1, TurnState::turn);
  EXPECT_EQ(pass(10, kShort), 1u);
  EXPECT_EQ(pass(10, kLong), 0u);
  complete_all(kMillisecond);
  EXPECT_EQ(pass(10, kLong), 1u);
}

TEST_F(TurnGateTest, UnfinishedWorkOfATurnIsBoundedByItsTime) {
  show(1, TurnState::turn);
  learn(kShort, kMillisecond / 20);
  EXPECT_EQ(pass(1000, kShort), 80u) << "4 ms";
  complete_all(4 * kMillisecond);
  learn(kLong, 3 * kMillisecond);
  EXPECT_EQ(pass(1000, kLong), 2u) << "the GPU goes on with the second one";
  EXPECT_EQ(pass(1, kShort), 0u);
}

TEST_F(TurnGateTest, LongestTimeOfAKernelCounts) {
  show(1, TurnState::turn);
  for (int i = 0; i < 2; ++i) learn(kLong, 20 * kMillisecond);
  for (int i = 0; i < 1000; ++i) learn(kLong, kMillisecond / 100);
  EXPECT_LT(pass(1000, kLong), 5u) << "not the 200 of the average";
}

TEST_F(TurnGateTest, OneLateMeasurementIsForgotten) {
  show(1, TurnState::turn);
  for (int i = 0; i < 1000; ++i) learn(kShort, i == 500 ? 20 * kMillisecond : kMillisecond / 100);
  EXPECT_GT(pass(1000, kShort), 50u);
}

TEST_F(TurnGateTest, KernelsOfOneBatchShareItsTime) {
  show(1, TurnState::turn);
  learn(kShort, kMillisecond / 50);
  learn(kLong, kMillisecond / 5);
  for (int i = 0; i < 100; ++i) {
    WorkBatch batch;
    for (uint64_t key : {kShort, kLong}) gate.add(batch, key);
    fences.push_back(gate.add_fence(batch));
    complete_all(11 * kMillisecond);
  }
  EXPECT_NEAR(pass(1000, kShort), 4, 1) << "a millisecond each";
  complete_all(4 * kMillisecond);
  EXPECT_EQ(pass(1000, kLong), 2u) << "ten milliseconds each";
}

TEST_F(TurnGateTest, WorkThatDoesNotEndInATurnMakesRoomForOtherWork) {
  show(1, TurnState::turn);
  EXPECT_EQ(pass(10), 1u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pass(10), 0u);
    g_now += 1000 * kMillisecond;
    EXPECT_EQ(pass(10), 1u);
  }
}

TEST_F(TurnGateTest, TurnEndsWithAllOfItsWork) {
  show(1, TurnState::turn);
  EXPECT_EQ(pass(1), 1u);
  show(1, TurnState::closed);
  g_now += 1000 * kMillisecond;
  pass(1);
  EXPECT_TRUE(sent.empty()) << "whether it waits or runs cannot be seen";
}

TEST_F(TurnGateTest, WorkBehindAStallInItsStreamWaits) {
  show(1, TurnState::turn);
  EXPECT_EQ(pass(1), 1u);
  WorkRecord same{kShort, ++position, fences[0].number};
  g_now += 1000 * kMillisecond;
  EXPECT_FALSE(gate.may_submit(same)) << "what is in flight cannot wait for it";
  EXPECT_EQ(pass(1), 1u) << "but for work of another stream";
  same.ended_fence = fences[0].number;
  complete_all();
  EXPECT_TRUE(gate.may_submit(same));
}

TEST_F(TurnGateTest, RecordThatIsRefusedForLongIsTheNextOne) {
  show(1, TurnState::turn);
  learn(kShort, kMillisecond);
  WorkRecord unknown{13, ++position}, loop{kShort, ++position};
  // One pass with a stream that never ends, which comes first. Returns how many of its records were
  // submitted.
  auto refused = [&] {
    gate.begin_pass();
    WorkBatch batch;
    uint32_t submitted = 0;
    for (; submitted < 100 && gate.may_submit(loop); ++submitted) {
      gate.add(batch, kShort);
      loop.position = ++position;
    }
    if (submitted) fences.push_back(gate.add_fence(batch));
    EXPECT_FALSE(gate.may_submit(unknown));
    gate.end_pass();
    return submitted;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(refused(), 4u);
    complete_all(4 * kMillisecond);
  }
  EXPECT_FALSE(gate.may_submit(loop)) << "others wait for it";
  EXPECT_TRUE(gate.may_submit(unknown));
}

TEST_F(TurnGateTest, RecordIsTheNextOneAlsoInTheNextTurn) {
  show(1, TurnState::turn);
  learn(kShort, kMillisecond);
  WorkRecord unknown{13, ++position};
  EXPECT_EQ(pass(1, kShort), 1u);
  gate.begin_pass();
  EXPECT_FALSE(gate.may_submit(unknown));
  gate.end_pass();
  show(1, TurnState::closed);
  complete_all(15 * kMillisecond);
  pass(0);
  show(2, TurnState::turn);
  EXPECT_EQ(pass(1, kShort), 0u);
  EXPECT_TRUE(gate.may_submit(unknown));
}

TEST_F(TurnGateTest, LongWorkIsNoStall) {
  show(1, TurnState::turn);
  learn(kLong, 800 * kMillisecond);
  EXPECT_EQ(pass(1, kLong), 1u);
  g_now += 400 * kMillisecond;
  EXPECT_EQ(pass(1, kLong), 0u);
}

TEST_F(TurnGateTest, FenceOfAnotherPartOfARecordMustCompleteBeforeTheTurnEnds) {
  show(1, TurnState::turn);
  WorkBatch no_records;
  fences.push_back(gate.add_fence(no_records));
  show(1, TurnState::closed);
  pass(0);
  EXPECT_TRUE(sent.empty());
  complete_all();
  pass(0);
  EXPECT_EQ(sent.size(), 1u);
}

TEST_F(TurnGateTest, EndOfATurnIsReportedWhenItsWorkHasEnded) {
  show(7, TurnState::turn);
  pass(1);
  show(7, TurnState::closed);
  EXPECT_EQ(pass(1), 0u);
  EXPECT_TRUE(gate.is_draining());
  EXPECT_TRUE(sent.empty()) << "work may still run";
  complete_all();
  pass(1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op, (uint32_t)TurnOp::drained);
  EXPECT_EQ(sent[0].turn, 7u);
  EXPECT_EQ(sent[0].wants, 1u);
  EXPECT_FALSE(gate.is_draining());
  pass(1);
  EXPECT_EQ(sent.size(), 1u) << "the report has asked for the next turn";
}

TEST_F(TurnGateTest, TurnThatPassedUnseenIsReported) {
  show(9, TurnState::closed);
  pass(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].turn, 9u);
  EXPECT_EQ(sent[0].wants, 0u);
}

TEST_F(TurnGateTest, SuggestedEndIsReportedUnlessThereIsWork) {
  show(1, TurnState::turn);
  pass(1);
  gate.suggest_end();
  pass(0);
  EXPECT_TRUE(sent.empty());
  complete_all();
  gate.suggest_end();
  pass(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wants, 0u);
  EXPECT_EQ(pass(1), 0u) << "the page still shows the turn that was given back";
}

TEST_F(TurnGateTest, WorkSubmittedWhileOpenCountsForTheTurnThatFollows) {
  show(0, TurnState::open);
  pass(100);
  show(1, TurnState::turn);
  pass(0);
  show(1, TurnState::closed);
  pass(0);
  EXPECT_TRUE(sent.empty());
  complete_all();
  pass(0);
  EXPECT_EQ(sent.size(), 1u);
}

TEST_F(TurnGateTest, NewLauncherIsAskedAgain) {
  pass(1);
  std::atomic<uint32_t> other{0};
  gate.use(&other);
  pass(1);
  EXPECT_EQ(sent.size(), 2u);
}

// Another thread that clears memory of the GPU.
class Clearing {
 public:
  explicit Clearing(TurnGate& gate) : gate_(gate) { asked_.get_future().wait(); }
  bool runs() { return admitted_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  void wait_until_it_runs() { admitted_.get(); }
  void end() { gate_.end_outside(); }

 private:
  TurnGate& gate_;
  std::promise<void> asked_;
  std::future<void> admitted_ = std::async(
      std::launch::async, [this] { gate_.begin_outside([this] { asked_.set_value(); }); });
};

TEST_F(TurnGateTest, WorkOutsideOfRecordsWaitsForATurnAndKeepsIt) {
  show(0, TurnState::closed);
  Clearing clearing(gate);
  pass(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op, (uint32_t)TurnOp::want);
  EXPECT_FALSE(clearing.runs());
  show(2, TurnState::turn);
  pass(0);
  clearing.wait_until_it_runs();
  show(2, TurnState::closed);
  pass(0);
  EXPECT_EQ(sent.size(), 1u) << "the turn has not drained";
  clearing.end();
  pass(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].op, (uint32_t)TurnOp::drained);
  EXPECT_EQ(sent[1].turn, 2u);
}

TEST_F(TurnGateTest, SingleTurnAdmitsWorkOutsideOfRecords) {
  show(1, TurnState::turn);
  pass(0);
  show(1, TurnState::single);
  Clearing clearing(gate);
  pass(0);
  clearing.wait_until_it_runs();
  EXPECT_EQ(pass(1), 0u) << "the turn is used";
  clearing.end();
  pass(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op, (uint32_t)TurnOp::drained);
}

TEST_F(TurnGateTest, WorkOutsideOfRecordsDoesNotWaitForEver) {
  show(0, TurnState::closed);
  Clearing clearing(gate);
  clearing.wait_until_it_runs();
  clearing.end();
}

TEST_F(TurnGateTest, WorkOutsideOfRecordsRunsWhileTheGateIsOpen) {
  show(1, TurnState::open);
  Clearing clearing(gate);
  pass(0);
  clearing.wait_until_it_runs();
  clearing.end();
  EXPECT_TRUE(sent.empty());
}

TEST_F(TurnGateTest, WorkOutsideOfRecordsIsWantedInTheReportOfATurn) {
  show(1, TurnState::turn);
  ASSERT_EQ(pass(1), 1u);
  show(1, TurnState::closed);
  Clearing clearing(gate);
  complete_all(kMillisecond);
  pass(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op, (uint32_t)TurnOp::drained);
  EXPECT_TRUE(sent[0].wants);
  show(2, TurnState::turn);
  pass(0);
  clearing.wait_until_it_runs();
  clearing.end();
}

}  // namespace
}  // namespace busbar::server
