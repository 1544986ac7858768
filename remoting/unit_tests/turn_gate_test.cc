#include "server/turn_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace busbar::server {
namespace {

using control::turn_word;
using control::TurnNotice;
using control::TurnOp;
using control::TurnState;

// A gate whose page and arbiter are in the test.
class TurnGateTest : public testing::Test {
 protected:
  TurnGateTest() { gate.use(&word); }
  // One pass of the executor that tries to submit `records`. Returns how many were submitted.
  uint32_t pass(uint32_t records) {
    gate.begin_pass();
    uint32_t submitted = 0;
    for (; submitted < records && gate.may_submit(); ++submitted) gate.add_unfenced();
    if (submitted) add_fence(submitted);
    gate.end_pass();
    return submitted;
  }
  void add_fence(uint32_t records) {
    gate.add_fence(records);
    fences.push_back(records);
  }
  void complete_all() {
    for (uint32_t records : fences) gate.complete(records);
    fences.clear();
  }
  void show(uint32_t turn, TurnState state) { word = turn_word(turn, state); }
  std::vector<TurnNotice> sent;
  std::atomic<uint32_t> word{0};
  TurnGate gate{3,
                [](void* test, const TurnNotice& notice) {
                  ((TurnGateTest*)test)->sent.push_back(notice);
                  return true;
                },
                this};
  std::vector<uint32_t> fences;
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

TEST_F(TurnGateTest, UnfinishedWorkOfATurnIsBounded) {
  show(1, TurnState::turn);
  uint32_t first = pass(1000);
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, 1000u);
  EXPECT_EQ(pass(1), 0u);
  complete_all();
  EXPECT_GT(pass(1), 0u);
}

// With less, the GPU waits after each record until the next one is submitted.
TEST_F(TurnGateTest, FencesTakeNoPlaceOfRecordsInFlight) {
  show(1, TurnState::turn);
  uint32_t submitted = 0;
  for (gate.begin_pass(); submitted < 10 && gate.may_submit(); ++submitted) {
    gate.add_unfenced();
    add_fence(1);
  }
  EXPECT_EQ(submitted, 4u) << "as many as the first turn admits, without their fences";
}

TEST_F(TurnGateTest, FenceWithoutWorkMustCompleteBeforeTheTurnEnds) {
  show(1, TurnState::turn);
  add_fence(0);
  show(1, TurnState::closed);
  pass(0);
  EXPECT_TRUE(sent.empty());
  complete_all();
  pass(0);
  EXPECT_EQ(sent.size(), 1u);
}

TEST_F(TurnGateTest, EndOfATurnIsReportedWhenItsWorkHasEnded) {
  show(7, TurnState::turn);
  pass(2);
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

}  // namespace
}  // namespace busbar::server
