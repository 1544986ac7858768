// Sessions whose launcher ends or is stopped.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "server/turns.h"
#include "unit_tests/arbiters_client.h"

namespace busbar::launcher {
namespace {

bool becomes(server::Turns& turns, bool may_submit) {
  auto end = std::chrono::steady_clock::now() + kEvent;
  while (turns.gate(0)->may_submit({1}) != may_submit)
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

TEST(LostLauncher, WithoutLauncherWorkRunsForAWhileAndThenWaitsForTheNext) {
  auto& arbiters = running_arbiters();
  Client b(arbiters, {"b", {2}});
  auto& turns = *new server::Turns(1, std::chrono::milliseconds(200));
  int mine = arbiters.connect({"a", {1}});
  turns.connect(mine);
  EXPECT_FALSE(turns.gate(0)->may_submit({1}));
  shutdown(mine, SHUT_RDWR);  // as at the end of the launcher
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(becomes(turns, true)) << "unenforced";
  EXPECT_TRUE(becomes(turns, false)) << "waits for the next launcher";
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(150));
  turns.connect(running_arbiters().connect({"a", {1}}));
  EXPECT_TRUE(becomes(turns, true)) << "the next launcher has no other session";
}

TEST(LostLauncher, StoppedLauncherCountsAsGoneUntilItGoesOn) {
  static std::atomic<bool> is_stopped{false};
  static auto& arbiters = *new Arbiters;  // a detached thread steps it until the process exits
  for (auto* id : {"a", "b"}) arbiters.set_allocation(id, allocation_of(50));
  std::thread([] {
    for (;; usleep(1000))
      if (!is_stopped) arbiters.step(10);
  }).detach();
  Client b(arbiters, {"b", {2}});
  auto& turns = *new server::Turns(1, std::chrono::milliseconds(200));
  turns.connect(arbiters.connect({"a", {1}}));
  ASSERT_TRUE(becomes(turns, true)) << "its turn";
  const auto& page = turns.gate(0)->word();
  is_stopped = true;
  for (auto* source : {&server::TurnGate::kOpen, &server::TurnGate::kClosed, &page}) {
    is_stopped = source != &page;
    auto end = std::chrono::steady_clock::now() + kEvent;
    while (&turns.gate(0)->word() != source && std::chrono::steady_clock::now() < end) usleep(1000);
    ASSERT_EQ(&turns.gate(0)->word(), source);
  }
  EXPECT_TRUE(becomes(turns, true)) << "the next turn";
}

}  // namespace
}  // namespace busbar::launcher
