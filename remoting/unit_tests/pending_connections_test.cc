#include "launcher/pending_connections.h"

#include <gtest/gtest.h>

namespace busbar::launcher {
namespace {

PendingConnection connection(int fd, const std::string& network, int64_t deadline_ms = 100) {
  return {fd, network, network + ":1", deadline_ms, {}};
}

TEST(PendingConnections, OldestOfTheNetworkLeavesAtItsLimit) {
  PendingConnections pending(8, 2);
  EXPECT_TRUE(pending.add(connection(1, "home")).empty());
  EXPECT_TRUE(pending.add(connection(2, "stranger")).empty());
  EXPECT_TRUE(pending.add(connection(3, "stranger")).empty());
  EXPECT_EQ(pending.add(connection(4, "stranger")), std::vector<int>{2});
  EXPECT_NE(pending.find(1), nullptr);
  EXPECT_EQ(pending.find(2), nullptr);
  EXPECT_EQ(pending.size(), 3u);
}

TEST(PendingConnections, OldestOfAllLeavesAtTheTotalLimit) {
  PendingConnections pending(3, 2);
  for (int fd = 1; fd <= 3; ++fd) pending.add(connection(fd, "network " + std::to_string(fd)));
  EXPECT_EQ(pending.add(connection(4, "network 4")), std::vector<int>{1});
  EXPECT_EQ(pending.size(), 3u);
}

TEST(PendingConnections, LargestNetworkMakesRoomAtTheTotalLimit) {
  PendingConnections pending(3, 2);
  pending.add(connection(1, "home"));
  pending.add(connection(2, "stranger"));
  pending.add(connection(3, "stranger"));
  EXPECT_EQ(pending.add(connection(4, "another stranger")), std::vector<int>{2});
  EXPECT_NE(pending.find(1), nullptr);
}

TEST(PendingConnections, TakenConnectionMakesRoomInItsNetwork) {
  PendingConnections pending(8, 1);
  pending.add(connection(1, "home"));
  pending.find(1)->bytes = {1, 2, 3};
  EXPECT_EQ(pending.take(1).bytes.size(), 3u);
  EXPECT_TRUE(pending.add(connection(2, "home")).empty());
}

TEST(PendingConnections, ExpiredConnectionsLeaveInOrder) {
  PendingConnections pending(8, 8);
  EXPECT_EQ(pending.next_deadline_ms(0), -1);
  for (int fd = 1; fd <= 3; ++fd) pending.add(connection(fd, "home", 10 * fd));
  EXPECT_EQ(pending.next_deadline_ms(4), 6);
  EXPECT_EQ(pending.take_expired(20), (std::vector<int>{1, 2}));
  EXPECT_EQ(pending.next_deadline_ms(50), 0);
  EXPECT_EQ(pending.take_oldest(), 3);
  EXPECT_EQ(pending.take_oldest(), -1);
}

}  // namespace
}  // namespace busbar::launcher
