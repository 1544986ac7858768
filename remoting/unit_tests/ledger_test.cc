// Ledger: limits, several sessions, and sessions that are killed.
#include "server/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

constexpr uint64_t kLimit = 1000;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    uint64_t limits[2] = {kLimit, 2 * kLimit};
    launcher = Ledger::create(folder.ledger(), limits, 2);
    session = Ledger::join(folder.ledger(), 7);
  }

  // Runs `body` in another process, which then waits to be killed. Returns its pid when `body` is
  // done.
  pid_t in_another_process(const std::function<void()>& body) {
    int done[2];
    EXPECT_EQ(pipe(done), 0);
    pid_t pid = fork();
    if (pid == 0) {
      body();
      (void)!write(done[1], "x", 1);
      for (;;) pause();
    }
    close(done[1]);
    char byte;
    EXPECT_EQ(read(done[0], &byte, 1), 1) << "the process failed";
    close(done[0]);
    return pid;
  }

  static void kill_and_collect(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  // Another session server with a charge.
  pid_t session_with_charge(uint64_t bytes) {
    return in_another_process([&] {
      auto* other = Ledger::join(folder.ledger(), 8).release();
      if (!other || !other->reserve(0, bytes)) _exit(1);
    });
  }

  TemporaryFolder folder;
  std::unique_ptr<Ledger> launcher, session;
};

TEST_F(LedgerTest, ChargeUpToTheLimitSucceeds) {
  EXPECT_TRUE(session->reserve(0, kLimit));
  EXPECT_EQ(launcher->charged(0), kLimit);
  EXPECT_EQ(session->charged_here(0), kLimit);
}

TEST_F(LedgerTest, ChargeOverTheLimitIsRejectedWhole) {
  EXPECT_TRUE(session->reserve(0, kLimit - 1));
  EXPECT_FALSE(session->reserve(0, 2));
  EXPECT_EQ(session->charged_here(0), kLimit - 1);
  EXPECT_FALSE(session->reserve(0, ~0ull)) << "the sum overflowed";
  EXPECT_TRUE(session->reserve(0, 1));
}

TEST_F(LedgerTest, PartitionsHaveSeparateLimits) {
  EXPECT_TRUE(session->reserve(0, kLimit));
  EXPECT_TRUE(session->reserve(1, 2 * kLimit));
  EXPECT_FALSE(session->reserve(1, 1));
  EXPECT_FALSE(session->reserve(2, 1)) << "there are two partitions";
}

TEST_F(LedgerTest, RemovedPartitionRejectsCharges) {
  uint64_t limit = kLimit;
  launcher = Ledger::create(folder.ledger(), &limit, 1);
  EXPECT_TRUE(session->reserve(0, 1));
  EXPECT_FALSE(session->reserve(1, 1));
}

TEST_F(LedgerTest, ReleaseNeverGoesBelowZero) {
  session->reserve(0, 10);
  session->release(0, 500);
  EXPECT_EQ(session->charged_here(0), 0u);
  EXPECT_TRUE(session->reserve(0, kLimit));
  EXPECT_FALSE(session->reserve(0, 1));
}

TEST_F(LedgerTest, LoweredLimitRejectsNewChargesOnly) {
  session->reserve(0, 600);
  uint64_t limits[2] = {500, 500};
  launcher = Ledger::create(folder.ledger(), limits, 2);
  EXPECT_FALSE(session->reserve(0, 1));
  EXPECT_EQ(session->charged_here(0), 600u);
}

TEST_F(LedgerTest, SessionsShareTheLimit) {
  pid_t other = session_with_charge(700);
  EXPECT_TRUE(session->has_session(other));
  EXPECT_FALSE(session->reserve(0, 301));
  EXPECT_TRUE(session->reserve(0, 300));
  EXPECT_EQ(launcher->charged(0), kLimit);
  EXPECT_EQ(launcher->processes(0).size(), 2u);
  kill_and_collect(other);
}

TEST_F(LedgerTest, ChargeOfAKilledSessionIsFreed) {
  pid_t other = session_with_charge(700);
  kill_and_collect(other);
  EXPECT_TRUE(session->reserve(0, kLimit));
  EXPECT_FALSE(session->has_session(other));
  EXPECT_EQ(launcher->processes(0).size(), 1u);
}

TEST_F(LedgerTest, LedgerSurvivesAProcessKilledWhileItHoldsTheMutex) {
  int fd = open(folder.ledger().c_str(), O_RDWR);
  auto* file =
      (LedgerFile*)mmap(nullptr, sizeof(LedgerFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  pid_t other = in_another_process([&] {
    if (pthread_mutex_lock(&file->mutex)) _exit(1);
  });
  kill_and_collect(other);
  EXPECT_TRUE(session->reserve(0, 1));
  EXPECT_EQ(pthread_mutex_trylock(&file->mutex), 0) << "the mutex must be usable afterwards";
  pthread_mutex_unlock(&file->mutex);
  munmap(file, sizeof(LedgerFile));
}

TEST_F(LedgerTest, RefusedCallsAreRecordedOnceAndOutliveTheSession) {
  session->add_refused_call("cuFoo");
  session->add_refused_call("cuBar");
  session->add_refused_call("cuFoo");
  uint64_t started = process_start_time(getpid());
  session.reset();
  EXPECT_EQ(launcher->refused_calls(getpid(), started), "cuFoo cuBar");
  EXPECT_EQ(launcher->refused_calls(getpid(), started + 1), "");
}

TEST_F(LedgerTest, RefusedCallsThatDoNotFitAreLeftOut) {
  std::string fitting = "cuCall0";
  for (int i = 0; i < 100; ++i) {
    std::string name = "cuCall" + std::to_string(i);
    session->add_refused_call(name);
    if (i && fitting.size() + 1 + name.size() < kRefusedBytes) fitting += " " + name;
  }
  EXPECT_EQ(launcher->refused_calls(getpid(), process_start_time(getpid())), fitting);
}

TEST_F(LedgerTest, JoinFailsWithoutAFileAndWithoutAFreeSlot) {
  EXPECT_EQ(Ledger::join(folder.ledger() + "-absent", 1), nullptr);
  std::vector<std::unique_ptr<Ledger>> others;
  for (uint32_t i = 1; i < kLedgerSessions; ++i) {
    others.push_back(Ledger::join(folder.ledger(), i));
    ASSERT_NE(others.back(), nullptr);
  }
  EXPECT_EQ(Ledger::join(folder.ledger(), 1), nullptr);
  others.pop_back();
  EXPECT_NE(Ledger::join(folder.ledger(), 1), nullptr);
}

TEST_F(LedgerTest, ForeignFileIsRejected) {
  TemporaryFolder other;
  int fd = open(other.ledger().c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(ftruncate(fd, sizeof(LedgerFile)), 0);
  close(fd);
  EXPECT_EQ(Ledger::join(other.ledger(), 1), nullptr);
}

}  // namespace
}  // namespace busbar::server
