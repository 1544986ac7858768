// Ledger port: sessions that send requests without end.
#include "launcher/ledger_port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using namespace std::chrono;

// Sends charges that exceed the limit, which take the launcher longest, and reads all answers.
void send_without_end(int socket, const std::atomic<bool>& stops) {
  char room[sizeof(control::LedgerAnswer)];
  for (uint64_t sequence = 1; !stops;) {
    control::LedgerRequest request{
        sequence, (uint32_t)control::LedgerOp::reserve, 0, UINT64_MAX, {}};
    if (send(socket, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) ++sequence;
    while (recv(socket, room, sizeof room, MSG_DONTWAIT) > 0) {
    }
  }
  close(socket);
}

TEST(LedgerFlood, FloodOfRequestsDelaysNeitherSessionsNorTheLauncher) {
  constexpr uint8_t kVictim = 1, kNext = 2, kFirstFlooding = 10, kFlooding = 8;
  constexpr int kRounds = 20;
  server::TemporaryFolder folder;
  fuzz::OwnLauncher launcher(folder.path(), {1000});
  server::Account account({1000});
  ASSERT_TRUE(launcher.connect(account, kVictim));
  std::atomic<bool> stops{false};
  std::vector<std::thread> threads;
  for (uint8_t i = 0; i < kFlooding; ++i) {
    int socket = launcher.connect_socket((uint8_t)(kFirstFlooding + i), 1);
    threads.emplace_back([socket, &stops] { send_without_end(socket, stops); });
  }
  auto begin = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(account.reserve(0, 1));
    account.release(0, 1);
    close(launcher.connect_socket(kNext, 1));
    launcher.ledgers().held(fuzz::OwnLauncher::kAllocation, 1);
  }
  EXPECT_LT((steady_clock::now() - begin) / kRounds, milliseconds(300));
  stops = true;
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace busbar::launcher
