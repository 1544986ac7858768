#include "server/module_unloads.h"

#include <gtest/gtest.h>

namespace busbar::server {
namespace {

TEST(ModuleUnloadsTest, WorkWithoutUnloadsRunsAtOnce) {
  ModuleUnloads unloads;
  int runs = 0;
  unloads.run_after_begun([&] { ++runs; });
  unloads.begin();
  unloads.end();
  unloads.run_after_begun([&] { ++runs; });
  EXPECT_EQ(runs, 2);
}

TEST(ModuleUnloadsTest, WorkRunsAfterTheUnloadsBeforeItAndNoLaterOnes) {
  ModuleUnloads unloads;
  int runs = 0;
  unloads.begin();
  unloads.begin();
  unloads.run_after_begun([&] { ++runs; });
  unloads.begin();
  unloads.end();
  EXPECT_EQ(runs, 0);
  unloads.end();
  EXPECT_EQ(runs, 1);
  unloads.end();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace busbar::server
