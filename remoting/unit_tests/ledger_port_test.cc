// LedgerPort: what it watches after a session has ended.
#include "launcher/ledger_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "unit_tests/paused_process.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using server::TemporaryFolder;

constexpr uint64_t kPortLimit = 1000;
constexpr auto kDeadline = std::chrono::seconds(60);
const Account kAccount{"ledger", {1}};

// The epoll instances of this process, among them those of the ports of other tests.
std::set<std::string> epoll_instances() {
  std::set<std::string> found;
  std::error_code closed;  // by another thread
  for (auto& file : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(file, closed) == "anon_inode:[eventpoll]")
      found.insert(file.path().filename());
  return found;
}

// The number of descriptors that an epoll instance watches. See proc(5).
int watched_by(const std::string& epoll) {
  int count = 0;
  std::ifstream lines("/proc/self/fdinfo/" + epoll);
  for (std::string line; std::getline(lines, line);) count += line.starts_with("tfd:");
  return count;
}

bool becomes(const std::string& epoll, int count) {
  auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (watched_by(epoll) != count) {
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
  auto others = epoll_instances();
  auto& port = *new LedgerPort(ledgers);
  auto added = epoll_instances();
  for (auto& other : others) added.erase(other);
  ASSERT_EQ(added.size(), 1u);
  const std::string& epoll = *added.begin();
  std::thread([&port] { port.run(); }).detach();
  ASSERT_TRUE(ledgers.set_limits(kAccount.allocation, &kPortLimit, 1));
  PausedProcess server;
  int socket = port.connect(kAccount, 1, server.pidfd(), {"", (pid_t)server.pid()});
  ASSERT_GE(socket, 0);
  ASSERT_EQ(watched_by(epoll), 2) << "the connection and the process";
  server.end();
  EXPECT_TRUE(becomes(epoll, 1)) << "the ended process is still watched";
  close(socket);
  EXPECT_TRUE(becomes(epoll, 0));
}

}  // namespace
}  // namespace busbar::launcher
