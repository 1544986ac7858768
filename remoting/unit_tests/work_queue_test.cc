#include "launcher/work_queue.h"

#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <vector>

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

TEST(WorkQueue, FreeThreadGoesToAnotherHolderAndItsNewestJob) {
  auto& queue = *new WorkQueue({1, 1, 100});
  std::latch started(1), release(1), done(5);
  std::vector<std::string> order;  // of one thread
  auto job = [&](std::string name) {
    return [&, name = std::move(name)] {
      order.push_back(name);
      done.count_down();
    };
  };
  EXPECT_TRUE(queue.submit("first", [&] {
    started.count_down();
    release.wait();
    done.count_down();
  }));
  started.wait();
  for (auto name : {"flood 1", "flood 2", "flood 3"}) EXPECT_TRUE(queue.submit("flood", job(name)));
  EXPECT_TRUE(queue.submit("calm", job("calm")));
  release.count_down();
  done.wait();
  EXPECT_EQ(order, (std::vector<std::string>{"flood 3", "calm", "flood 2", "flood 1"}));
}

}  // namespace
}  // namespace busbar::launcher
