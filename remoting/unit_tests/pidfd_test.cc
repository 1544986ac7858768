// Tests of the state of a process that a pidfd shows.
#include "launcher/pidfd.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace busbar::launcher {
namespace {

void wait_for_end_of_first_thread(pid_t pid) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat", number, name, state;
  while (!(std::ifstream(path) >> number >> name >> state) || state != "Z")
    std::this_thread::yield();
}

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
  wait_for_end_of_first_thread(child);
  int pidfd = open_pidfd(child);
  EXPECT_FALSE(has_ended(pidfd));
  EXPECT_FALSE(is_exiting(child));
  EXPECT_NE(process_start_time(child), 0u);
  kill_process(pidfd);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(pidfd);
}

// The kernel lists a thread that has ended until its tracer has collected it.
TEST(Pidfd, ProcessIsExitingWhileItsOtherThreadsAreListed) {
  int go[2], started[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(started), 0);
  pid_t child = fork(), thread = 0;
  if (!child) {
    close(go[1]);
    std::thread([&] {
      pid_t id = (pid_t)syscall(SYS_gettid);
      if (write(started[1], &id, sizeof id) == sizeof id) pause();
    }).detach();
    _exit(read(go[0], &thread, 1) != 0);
  }
  close(go[0]);
  ASSERT_EQ(read(started[0], &thread, sizeof thread), (ssize_t)sizeof thread);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, thread, nullptr, nullptr), 0);
  EXPECT_FALSE(is_exiting(child));
  close(go[1]);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, (id_t)thread, &info, WEXITED | WNOWAIT | __WALL), 0);
  wait_for_end_of_first_thread(child);
  int pidfd = open_pidfd(child);
  EXPECT_FALSE(has_ended(pidfd));
  EXPECT_TRUE(is_exiting(child));
  EXPECT_EQ(waitpid(thread, nullptr, __WALL), thread);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (int fd : {pidfd, started[0], started[1]}) close(fd);
}

}  // namespace
}  // namespace busbar::launcher
