// Account and LedgerPort: requests over a connection, launchers that come and go, and sessions that
// break the protocol.
#include "server/account.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

using control::LedgerOp;
using control::LedgerRequest;

constexpr uint64_t kLimit = 1000;

class AccountTest : public testing::Test {
 protected:
  bool reserve(uint64_t bytes) { return account.reserve(0, bytes); }

  TemporaryFolder folder;
  fuzz::OwnLauncher launcher{folder.path(), {kLimit}};
  Account account{{kLimit}};
};

TEST_F(AccountTest, ChargeIsDecidedByTheLauncher) {
  ASSERT_TRUE(launcher.connect(account));
  EXPECT_TRUE(reserve(600));
  EXPECT_FALSE(reserve(600));
  EXPECT_EQ(account.charged_here(0), 600u);
  EXPECT_EQ(account.charged(0), 600u);
  EXPECT_EQ(launcher.ledgers().held(launcher.kAllocation, 1)[0], 600u);
  account.release(0, 500);
  EXPECT_TRUE(reserve(900));
}

TEST_F(AccountTest, RequestWaitsForALauncher) {
  auto granted = std::async(std::launch::async, [&] { return reserve(100); });
  account.add_refused_call("cuFoo");  // does not wait
  ASSERT_TRUE(launcher.connect(account));
  EXPECT_TRUE(granted.get());
}

TEST_F(AccountTest, LauncherHasTheNamesOfUnsupportedCallsWhenTheSessionEnds) {
  for (char letter = 'a'; letter < 'a' + 20; ++letter) {
    Account ending{{kLimit}};
    ASSERT_TRUE(launcher.connect(ending, (uint8_t)letter));
    ending.add_refused_call("cuFoo");
    ending.send_last_names();
  }
  for (char letter = 'a'; letter < 'a' + 20; ++letter)
    EXPECT_EQ(launcher.ledgers().refused_calls({launcher.kAllocation, {(uint8_t)letter}}), "cuFoo");
}

TEST_F(AccountTest, ChargeWithoutALauncherFailsInTheEndAndIsReleased) {
  Account impatient({kLimit}, std::chrono::milliseconds(20));
  EXPECT_FALSE(impatient.reserve(0, 600));
  ASSERT_TRUE(launcher.connect(impatient));
  impatient.wait_until_answered();
  EXPECT_EQ(impatient.charged_here(0), 0u);
  EXPECT_EQ(launcher.ledgers().held(launcher.kAllocation, 1)[0], 0u);
  EXPECT_TRUE(impatient.reserve(0, kLimit));
}

TEST_F(AccountTest, ConnectionOfALaterLauncherContinues) {
  ASSERT_TRUE(launcher.connect(account));
  EXPECT_TRUE(reserve(600));
  fuzz::OwnLauncher later{folder.path(), {kLimit}};
  ASSERT_TRUE(later.connect(account));
  EXPECT_FALSE(reserve(600));
  EXPECT_TRUE(reserve(400));
  EXPECT_EQ(later.ledgers().held(launcher.kAllocation, 1)[0], kLimit);
}

TEST_F(AccountTest, PageShowsAllSessions) {
  Account other{{kLimit}};
  ASSERT_TRUE(launcher.connect(account, 1, 77));
  ASSERT_TRUE(launcher.connect(other, 2, 88));
  EXPECT_TRUE(reserve(600));
  EXPECT_EQ(other.charged(0), 600u);
  EXPECT_EQ(other.charged_here(0), 0u);
  EXPECT_TRUE(other.has_session(getpid()));
  EXPECT_FALSE(other.has_session(1));
  auto processes = other.processes(0);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].pid, 77u);
  EXPECT_EQ(processes[0].bytes, 600u);
}

// A session server that speaks the protocol by hand.
class HostileSessionTest : public AccountTest {
 protected:
  HostileSessionTest() { socket = launcher.connect_socket(2, 2); }
  ~HostileSessionTest() override { close(socket); }
  bool send(const void* p, size_t n) { return ::send(socket, p, n, MSG_NOSIGNAL) == (ssize_t)n; }
  bool send(uint64_t sequence, uint64_t bytes) {
    LedgerRequest r{sequence, (uint32_t)LedgerOp::reserve, 0, bytes, {}};
    return send(&r, sizeof r);
  }
  // Reads to the end of the connection.
  void expect_end() {
    char buffer[512];
    pollfd p{socket, POLLIN, 0};
    ssize_t n = 1;
    while (n > 0) {
      ASSERT_EQ(poll(&p, 1, 5000), 1);
      n = recv(socket, buffer, sizeof buffer, 0);
    }
    // Others are served.
    ASSERT_TRUE(launcher.connect(account));
    EXPECT_TRUE(reserve(kLimit));
  }
  int socket = -1;
};

TEST_F(HostileSessionTest, ShortRequestEndsTheConnection) {
  send("x", 1);
  expect_end();
}

TEST_F(HostileSessionTest, LongRequestEndsTheConnection) {
  std::string garbage(100'000, 'x');
  send(garbage.data(), garbage.size());
  expect_end();
}

TEST_F(HostileSessionTest, WrongSequenceEndsTheConnection) {
  send(7, 1);
  expect_end();
}

TEST_F(HostileSessionTest, SessionThatReadsNoAnswerLosesTheConnection) {
  uint64_t sequence = 0;
  while (send(++sequence, 0)) {
  }
  expect_end();
}

}  // namespace
}  // namespace busbar::server
