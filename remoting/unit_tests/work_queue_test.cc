#include "launcher/work_queue.h"

#include <gtest/gtest.h>

#include <latch>

namespace busbar::launcher {
namespace {

TEST(WorkQueue, StalledJobsOfOneHolderLeaveThreadsToOthers) {
  // Never destroyed: its threads are detached.
  auto& queue = *new WorkQueue({4, 2, 3});
  std::latch release(1), stalled(2), served(1), all(5);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(queue.submit("stalling", [&, i] {
      if (i < 2) stalled.count_down();
      release.wait();
      all.count_down();
    }));
  EXPECT_FALSE(queue.submit("stalling", [] {})) << "three jobs wait already";
  stalled.wait();
  EXPECT_TRUE(queue.submit("other", [&] { served.count_down(); }));
  served.wait();
  release.count_down();
  all.wait();
}

TEST(WorkQueue, JobsBeyondTheThreadsRunLater) {
  auto& queue = *new WorkQueue({2, 2, 100});
  std::latch done(50);
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(queue.submit(std::to_string(i % 7), [&] { done.count_down(); }));
  done.wait();
}

}  // namespace
}  // namespace busbar::launcher
