// What the kernel tells about a process.
#include "launcher/pidfd.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

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
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_exiting(child));
  EXPECT_EQ(process_start_time(child), 0u);
}

TEST(Pidfd, ProcessGoesOnWithoutItsFirstThread) {
  pid_t child = fork();
  if (!child) {
    std::thread(pause).detach();
    syscall(SYS_exit, 0);
  }
  std::string stat = "/proc/" + std::to_string(child) + "/stat";
  auto first_has_ended = [&] {
    std::string pid, name, state;
    return (std::ifstream(stat) >> pid >> name >> state) && state == "Z";
  };
  while (!first_has_ended()) std::this_thread::yield();
  int pidfd = open_pidfd(child);
  EXPECT_FALSE(has_ended(pidfd));
  EXPECT_FALSE(is_exiting(child));
  EXPECT_NE(process_start_time(child), 0u);
  kill_process(pidfd);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(pidfd);
}

}  // namespace
}  // namespace busbar::launcher
