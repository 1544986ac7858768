// Requests to the spawner: their order, and a spawner that is slow.
#include "launcher/spawner_queue.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "control/messages.h"
#include "launcher/spawner_requests.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using namespace std::chrono_literals;
constexpr auto kLong = 120s;

bool waits(auto& requests, size_t count) {
  auto end = std::chrono::steady_clock::now() + kLong;
  while (requests.waiting() != count && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  return requests.waiting() == count;
}

TEST(SpawnerQueue, TenantsGoInTurnHoweverManyRequestsOneHas) {
  SpawnerQueue queue;
  ASSERT_TRUE(queue.enter("busy", kLong));
  std::vector<std::string> order;  // of one thread at a time
  std::vector<std::jthread> threads;
  for (auto* tenant : {"busy", "busy", "busy", "calm", "other", "calm"}) {
    threads.emplace_back([&, tenant] {
      EXPECT_TRUE(queue.enter(tenant, kLong));
      order.push_back(tenant);
      queue.leave();
    });
    ASSERT_TRUE(waits(queue, threads.size()));
  }
  queue.leave();
  for (auto& t : threads) t.join();
  EXPECT_EQ(order, (std::vector<std::string>{"calm", "other", "busy", "calm", "busy", "busy"}));
}

TEST(SpawnerQueue, RequestThatWaitsTooLongLeavesTheQueue) {
  SpawnerQueue queue;
  ASSERT_TRUE(queue.enter("first", kLong));
  EXPECT_FALSE(queue.enter("late", 1ms));
  EXPECT_EQ(queue.waiting(), 0u);
  queue.leave();
  EXPECT_TRUE(queue.enter("next", 1ms)) << "nothing waits, and nothing has entered";
  queue.leave();
}

// Answers the first request that waits at the socket, as the spawner does. Returns its tenant.
uint8_t answer_one(int listener) {
  int fd = accept(listener, nullptr, nullptr);
  control::SpawnRequest request{};
  EXPECT_EQ(recv(fd, &request, sizeof request, MSG_WAITALL), (ssize_t)sizeof request);
  control::SpawnReply reply{request.pid, 0};
  EXPECT_EQ(send(fd, &reply, sizeof reply, MSG_NOSIGNAL), (ssize_t)sizeof reply);
  close(fd);
  return request.tenant[0];
}

TEST(SpawnerQueue, SlowSpawnerServesMoreRequestsThanItsSocketHolds) {
  constexpr uint8_t kTenants = 4;
  constexpr size_t kOfTenant = 32;  // as many as WorkQueue permits
  server::TemporaryFolder folder;
  int listener = control::listen_at((folder.path() + control::kSpawnerSocket).c_str());
  ASSERT_GE(listener, 0);
  SpawnerRequests requests(folder.path());
  std::atomic<size_t> served{0};
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kTenants * kOfTenant; ++i)
    threads.emplace_back([&, i] {
      const uint8_t allocation[16] = {}, tenant[16] = {(uint8_t)(i / kOfTenant)};
      served += requests.open_cage(7, allocation, tenant).reply.pid == 7;
    });
  ASSERT_TRUE(waits(requests, threads.size() - 1));
  std::vector<size_t> of_tenant(kTenants);
  for (int i = 0; i < 2 * kTenants; ++i) ++of_tenant[answer_one(listener)];
  for (size_t count : of_tenant) EXPECT_GE(count, 1u) << "the others go first";
  for (size_t i = 2 * kTenants; i < threads.size(); ++i) answer_one(listener);
  for (auto& t : threads) t.join();
  EXPECT_EQ(served, threads.size());
  close(listener);
  unlink((folder.path() + control::kSpawnerSocket).c_str());
}

}  // namespace
}  // namespace busbar::launcher
