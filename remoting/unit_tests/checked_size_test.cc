#include "checked_size.h"

#include <gtest/gtest.h>

namespace {

constexpr uint64_t kMax = UINT64_MAX;

TEST(CheckedSize, ComputesValuesThatFit) {
  EXPECT_EQ((CheckedSize(3) * 7 + 4 - 5).value(), 20u);
  EXPECT_EQ((CheckedSize(kMax) + 0).value(), kMax);
  EXPECT_TRUE((CheckedSize(kMax) + 0).valid());
  EXPECT_EQ(CheckedSize(4097).rounded_up(4096).value(), 8192u);
}

TEST(CheckedSize, ResultThatDoesNotFitIsNotValid) {
  EXPECT_FALSE((CheckedSize(kMax) + 1).valid());
  EXPECT_FALSE((CheckedSize(0) - 1).valid());
  EXPECT_FALSE((CheckedSize(1ull << 32) * (1ull << 32)).valid());
  EXPECT_FALSE(CheckedSize(kMax).rounded_up(4096).valid());
}

TEST(CheckedSize, NothingComputedFromAnInvalidSizeIsValid) {
  CheckedSize wrapped = CheckedSize(kMax) + 1;
  EXPECT_FALSE((wrapped * 0).valid());
  EXPECT_FALSE((wrapped - 5).valid());
  EXPECT_FALSE((CheckedSize(1) + wrapped).valid());
  EXPECT_EQ(wrapped.value(), kMax);
}

TEST(CheckedSize, InvalidSizeIsWithinNoLimit) {
  CheckedSize wrapped = CheckedSize(kMax) + 1;
  EXPECT_FALSE(wrapped.within(kMax));
  EXPECT_FALSE(CheckedSize(0).within(wrapped));
  EXPECT_TRUE(CheckedSize(5).within(5));
  EXPECT_FALSE(CheckedSize(6).within(5));
}

}  // namespace
