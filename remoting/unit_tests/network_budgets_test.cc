#include "launcher/network_budgets.h"

#include <gtest/gtest.h>

namespace busbar::launcher {
namespace {

constexpr Rate kRate{2, 100};

TEST(NetworkBudgets, NetworkThatUsedItsBudgetGetsOneMoreEachInterval) {
  NetworkBudgets budgets(kRate);
  EXPECT_TRUE(budgets.take("stranger", 1000));
  EXPECT_FALSE(budgets.is_empty("stranger", 1000));
  EXPECT_TRUE(budgets.take("stranger", 1000));
  EXPECT_TRUE(budgets.is_empty("stranger", 1000));
  EXPECT_FALSE(budgets.take("stranger", 1099));
  EXPECT_FALSE(budgets.is_empty("home", 1000));
  EXPECT_TRUE(budgets.take("home", 1000));
  EXPECT_TRUE(budgets.take("stranger", 1100));
  EXPECT_FALSE(budgets.take("stranger", 1100));
}

TEST(NetworkBudgets, NumberOfKnownNetworksIsLimited) {
  NetworkBudgets budgets(kRate);
  for (size_t i = 0; i < 2 * kMaxKnownNetworks; ++i)
    EXPECT_TRUE(budgets.take(std::to_string(i), 1000));
  EXPECT_EQ(budgets.size(), kMaxKnownNetworks);
  EXPECT_TRUE(budgets.take("later", 2000));
  EXPECT_EQ(budgets.size(), 1u) << "budgets that are full again are forgotten";
}

}  // namespace
}  // namespace busbar::launcher
