// Children of the spawner, and the reports of their end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawner/children.h"

using busbar::spawner::CacheTrimmer;
using busbar::spawner::collect_children;
using busbar::spawner::kTrimMs;
using busbar::spawner::Sessions;

namespace {

// Waits for the end of any child, and leaves its exit status to collect_children().
bool wait_for_child() {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0;
}

TEST(Children, TrimmerThatEndsBesideASessionIsStartedAgain) {
  Sessions sessions({.runtime = "/nonexistent"}, false);
  CacheTrimmer trimmer({}, "/nonexistent");
  if (fork() == 0) _exit(0);  // stands for a session server
  trimmer.work(true, 0);
  while (wait_for_child()) collect_children(trimmer, sessions);
  trimmer.work(true, kTrimMs);
  EXPECT_TRUE(wait_for_child());
  collect_children(trimmer, sessions);
}

}  // namespace
