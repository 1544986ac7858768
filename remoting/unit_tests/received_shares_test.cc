#include "launcher/received_shares.h"

#include <gtest/gtest.h>

#include "unit_tests/account_ids.h"

namespace busbar::launcher {
namespace {

using control::kUnknownShare;

constexpr Microseconds kSecond = 1'000'000;
constexpr Microseconds kBegin = 5'000 * kSecond;

// One account, which is asked for its share every `step`.
class Account {
 public:
  explicit Account(ReceivedShares& shares) : shares_(shares) { shares_.add(kA, charged_, now_); }
  uint32_t run(int seconds, int percent, Microseconds step = 2 * kSecond) {
    uint32_t share = kUnknownShare;
    for (Microseconds end = now_ + seconds * kSecond; now_ < end;) {
      now_ += step;
      charged_ += step * percent / 100;
      share = shares_.share(kA, charged_, now_);
    }
    return share;
  }
  Microseconds now() const { return now_; }

 private:
  ReceivedShares& shares_;
  Microseconds now_ = kBegin, charged_ = 123 * kSecond;
};

ReceivedShares in_turns() {
  ReceivedShares shares;
  shares.set_in_turns(true, kBegin);
  return shares;
}

TEST(ReceivedShares, ShareIsThatOfTheLastMinute) {
  ReceivedShares shares = in_turns();
  Account a(shares);
  EXPECT_EQ(a.run(10, 25), 2'500u);
  EXPECT_EQ(a.run(10, 75), 5'000u);
  EXPECT_EQ(a.run(46, 40), 4'483u);  // 4 s of 25, 10 s of 75 and 46 s of 40 percent
  EXPECT_EQ(a.run(14, 40), 4'000u);
}

TEST(ReceivedShares, ShareWithoutTurnsIsUnknown) {
  ReceivedShares shares;
  shares.set_in_turns(false, kBegin);
  Account a(shares);
  EXPECT_EQ(a.run(60, 0), kUnknownShare);
}

TEST(ReceivedShares, TimeWithoutTurnsDoesNotCount) {
  ReceivedShares shares = in_turns();
  Account a(shares);
  a.run(10, 30);
  shares.set_in_turns(false, a.now());
  EXPECT_EQ(a.run(20, 0), kUnknownShare);
  shares.set_in_turns(true, a.now());
  EXPECT_EQ(a.run(10, 50), 4'000u);
}

TEST(ReceivedShares, ShareIsUnknownAtFirstAndAfterALongPause) {
  ReceivedShares shares = in_turns();
  Account a(shares);
  EXPECT_EQ(a.run(0, 50), kUnknownShare);
  EXPECT_EQ(a.run(60, 50), 5'000u);
  EXPECT_EQ(a.run(600, 80, 600 * kSecond), kUnknownShare);
  EXPECT_EQ(a.run(10, 20), 2'000u);
}

TEST(ReceivedShares, QuestionsWithoutEndKeepTheShare) {
  ReceivedShares shares = in_turns();
  Account a(shares);
  EXPECT_EQ(a.run(60, 50, kSecond / 1'000), 5'000u);
}

TEST(ReceivedShares, AccountThatLeftBeginsAgain) {
  ReceivedShares shares = in_turns();
  Account a(shares);
  a.run(10, 50);
  shares.remove(kA);
  EXPECT_EQ(a.run(2, 50), kUnknownShare);
  shares.add(kA, 0, a.now());
  EXPECT_EQ(shares.share(kA, kSecond, a.now() + 4 * kSecond), 2'500u);
}

}  // namespace
}  // namespace busbar::launcher
