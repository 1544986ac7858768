// What the kernel tells about a process.
#include "launcher/pidfd.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace busbar::launcher {
namespace {

TEST(Pidfd, ProcessIsExitingOnceItHasBegunToExit) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  pid_t child = fork();
  if (!child) {
    char byte;
    close(go[1]);
    _exit(read(go[0], &byte, 1) != 0);
  }
  close(go[0]);
  EXPECT_FALSE(is_exiting(child));
  EXPECT_NE(process_start_time(child), 0u);
  close(go[1]);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_exiting(child));
  EXPECT_EQ(process_start_time(child), 0u);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_exiting(child));
}

}  // namespace
}  // namespace busbar::launcher
