// The bound of unfinished work of a session that has a GPU for itself: by itself, and in the model.
#include "server/backlog.h"

#include <gtest/gtest.h>

#include "unit_tests/turn_tenants.h"

namespace busbar {
namespace {

using namespace model;
using server::Backlog;

// Kernels of one length on a stream that has a kernel whenever there is room for one.
class BacklogTest : public testing::Test {
 protected:
  uint32_t fill() {
    uint32_t records = 0;
    do ++records, backlog.add_fence(1);
    while (backlog.has_room(0));
    return records;
  }
  // Submits as much as there is room for, and lets it end. Returns the number of records.
  uint32_t round(Nanoseconds length) {
    Nanoseconds since = now;
    uint32_t records = fill();
    now += records * length;
    backlog.complete(records, since, now);
    return records;
  }
  // The number of records after many rounds.
  uint32_t settled(Nanoseconds length) {
    for (int i = 0; i < 20; ++i) round(length);
    return round(length);
  }
  Backlog backlog;
  Nanoseconds now = kSecond;
};

TEST_F(BacklogTest, FollowsTheTimeOfTheNewestRecords) {
  EXPECT_NEAR(settled(2 * kMillisecond), 50, 1);
  EXPECT_NEAR(settled(kMillisecond), 100, 1);
  EXPECT_NEAR(settled(10 * kMillisecond), 10, 1);
}

TEST_F(BacklogTest, TwoRecordsAreAlwaysAdmitted) {
  EXPECT_EQ(settled(2 * kSecond), 2u);
}

TEST_F(BacklogTest, ShortKernelsAreNotBounded) {
  EXPECT_GT(settled(kMicrosecond), 50'000u);
}

TEST_F(BacklogTest, FirstKernelsDoNotTellOfLaterOnes) {
  EXPECT_EQ(round(kMicrosecond), Backlog::kFirst);
  EXPECT_EQ(round(kSecond), Backlog::kGrowth * Backlog::kFirst);
  EXPECT_EQ(round(kSecond), 2u);
}

TEST_F(BacklogTest, FencesThatAreSeenTogetherDoNotWidenIt) {
  uint32_t usual = settled(10 * kMillisecond);
  for (int i = 0; i < 10; ++i) {
    Nanoseconds since = now;
    for (uint32_t fence = 0; fence < usual; ++fence) backlog.add_fence(1);
    now += usual * 10 * kMillisecond;
    for (uint32_t fence = 0; fence < usual; ++fence) backlog.complete(1, since, now);
    EXPECT_LE(round(10 * kMillisecond), 2 * usual);
  }
}

TEST_F(BacklogTest, WorkWithoutAFenceDoesNotFillIt) {
  settled(50 * kMillisecond);
  EXPECT_TRUE(backlog.has_room(10));
}

// A neighbour with nine times the share waits for what was submitted before it came, and the
// tenant pays for it: a second for each 100 ms.
TEST(BacklogModel, NeighbourThatComesFindsLittleUnfinishedWork) {
  for (Nanoseconds length : {2 * kMillisecond, 50 * kMillisecond}) {
    Node node;
    Session& first = node.add(10);
    first.start(repeat(kernels(length)));
    node.run_for(6 * kSecond);
    node.add(90).start(repeat(kernels(kShort)));
    node.run_for(2 * kSecond);
    Nanoseconds before = first.process().executed;
    node.run_for(kMeasured);
    double percent = 100.0 * (double)(first.process().executed - before) / (double)kMeasured;
    EXPECT_NEAR(percent, 10, kMostError) << length << " ns";
  }
}

TEST(BacklogModel, StreamsOfASessionThatIsAloneRunSideBySide) {
  constexpr uint32_t kStreams = 32;
  constexpr Nanoseconds kLength = 200 * kMillisecond;
  Node node;
  Session& alone = node.add(100);
  alone.process().parallel = kStreams;
  for (uint32_t i = 0; i < 30 * kStreams; ++i)
    alone.submit({Item::work, 16 + i % kStreams, 0, kLength, 1});
  alone.start([](Session&) {});
  node.run_for(20 * kLength);
  EXPECT_LE(alone.unfinished, 11 * kStreams);
}

}  // namespace
}  // namespace busbar
