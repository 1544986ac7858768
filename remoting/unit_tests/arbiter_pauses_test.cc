// What the pauses of accounts cost, and how long others wait in them.
#include <gtest/gtest.h>

#include "launcher/arbiter.h"
#include "unit_tests/account_ids.h"

namespace busbar::launcher {
namespace {

using control::ComputeMode;

constexpr Microseconds kTenth = 100'000;

// Enters kPaused, whose newest pauses were short, with all of its credit left, and kVictim, without
// credit. kVictim has the turn and has work.
void enter(Arbiter& arbiter, uint32_t percent) {
  arbiter.set_share(kPaused, {ComputeMode::shared, percent}, 0);
  arbiter.set_share(kVictim, {ComputeMode::shared, 100 - percent}, 0);
  arbiter.drained(kPaused, false, 0);
  for (int i = 0; i < 10; ++i) {
    arbiter.want(kPaused, 0);
    arbiter.drained(kPaused, false, 0);
  }
  arbiter.want(kVictim, 0);
}

// Returns the time at which kPaused begins a pause with so much credit left. Before it, kVictim has
// a turn of that length.
Microseconds begin_pause(Arbiter& arbiter, uint32_t percent, Microseconds turn,
                         Microseconds credit) {
  enter(arbiter, percent);
  arbiter.want(kPaused, 0);
  arbiter.drained(kVictim, true, turn);
  Microseconds end = turn + Arbiter::kRound * percent / 100 - Pauses::kReturn - credit;
  for (Microseconds now = turn; now < end; now = std::min(arbiter.next_deadline(now), end))
    arbiter.advance(now);
  EXPECT_EQ(arbiter.holder(), kPaused);
  arbiter.drained(kPaused, false, end);
  return end;
}

// Counts the deadlines in a tenth of a second. Turns drain at once.
int count_deadlines(Arbiter& arbiter, Microseconds now) {
  int count = 0;
  for (Microseconds end = now + kTenth; now < end; ++count) {
    arbiter.advance(now);
    if (arbiter.is_revoked()) arbiter.drained(arbiter.holder(), true, now);
    now = std::max(now, arbiter.next_deadline(now));
  }
  return count;
}

TEST(ArbiterPauses, LittleCreditOfAnAccountInAPauseMakesNoShortTurns) {
  for (bool other_waits : {false, true})
    for (Microseconds credit : {1, 50, 100, 200, 300, 1000}) {
      Arbiter arbiter;
      Microseconds now = begin_pause(arbiter, 50, Arbiter::kTurn / 2, credit);
      if (other_waits) {
        arbiter.set_share(kSteady, {ComputeMode::shared, 25}, now);
        arbiter.want(kSteady, now);
      }
      EXPECT_LE(count_deadlines(arbiter, now), 2 * kTenth / Arbiter::kTurn)
          << other_waits << " " << credit;
    }
}

// The neighbour owes more than a turn, and has credit again in the next round.
TEST(ArbiterPauses, GpuWaitsNoLongerThanAnAccountInAPauseCanPay) {
  Arbiter arbiter;
  Microseconds now = begin_pause(arbiter, 2, 50'000, 600);
  ASSERT_FALSE(arbiter.holder()) << "the GPU waits for the end of the pause";
  now = arbiter.next_deadline(now);
  EXPECT_LE(now, 53'000);
  arbiter.advance(now);
  EXPECT_EQ(arbiter.holder(), kVictim);
}

// Its turn without paying ends when no account pays for it.
TEST(ArbiterPauses, OthersUseNoPauseOfAnAccountThatHasLeft) {
  Arbiter arbiter;
  Microseconds now = begin_pause(arbiter, 50, Arbiter::kTurn / 2, 1000);
  arbiter.set_share(kSteady, {ComputeMode::shared, 25}, now);
  arbiter.want(kSteady, now);
  ASSERT_TRUE(arbiter.holder());
  arbiter.remove(kPaused, now);
  EXPECT_LE(arbiter.next_deadline(now), now);
  arbiter.advance(now);
  EXPECT_TRUE(arbiter.is_revoked() || arbiter.next_deadline(now) > now);
}

// A turn in a pause ends when the account in the pause has no credit for it any more.
TEST(ArbiterPauses, AccountThatComesBackFromAPauseHasCreditOfTheNextRound) {
  Arbiter arbiter;
  enter(arbiter, 2);
  arbiter.set_share(kSteady, {ComputeMode::shared, 50}, 0);
  arbiter.want(kSteady, 0);
  ASSERT_EQ(arbiter.holder(), kVictim);
  Microseconds now = arbiter.next_deadline(0);
  arbiter.advance(now);
  arbiter.want(kPaused, now);
  EXPECT_TRUE(arbiter.is_revoked());
  arbiter.drained(kVictim, true, now);
  EXPECT_EQ(arbiter.holder(), kPaused);
}

}  // namespace
}  // namespace busbar::launcher
