// LedgerPort: what it watches after a session has ended.
#include "launcher/ledger_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "unit_tests/paused_process.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using server::TemporaryFolder;

constexpr uint64_t kPortLimit = 1000;
constexpr auto kDeadline = std::chrono::seconds(10);
const Account kAccount{"ledger", {1}};

// The number of descriptors that the epoll instances of this process watch. See proc(5).
int watched_descriptors() {
  int count = 0;
  for (auto& file : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) count += line.starts_with("tfd:");
  }
  return count;
}

bool becomes(int count) {
  auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (watched_descriptors() != count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// The launcher keeps other descriptors of the process, for longer than this port. With one that is
// still watched, epoll_wait() returns at once again and again.
TEST(LedgerPortTest, EndedProcessIsNoLongerWatchedWhileTheLauncherHasItsDescriptor) {
  TemporaryFolder folder;
  auto& ledgers = *new Ledgers(folder.path());  // the thread below has no end
  auto& port = *new LedgerPort(ledgers);
  std::thread([&port] { port.run(); }).detach();
  ASSERT_TRUE(ledgers.set_limits(kAccount.allocation, &kPortLimit, 1));
  int before = watched_descriptors();
  PausedProcess server;
  int socket = port.connect(kAccount, 1, server.pidfd(), {"", (pid_t)server.pid()});
  ASSERT_GE(socket, 0);
  ASSERT_EQ(watched_descriptors(), before + 2) << "the connection and the process";
  server.end();
  EXPECT_TRUE(becomes(before + 1)) << "the ended process is still watched";
  close(socket);
  EXPECT_TRUE(becomes(before));
}

}  // namespace
}  // namespace busbar::launcher
