// The link of a session over TLS: a client that reads nothing.
#include "server/link.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <future>
#include <thread>

namespace busbar::server {
namespace {

constexpr size_t kFrameBytes = 1 << 20, kFrames = 64;
constexpr int kHandshakeMs = 10'000;
constexpr auto kLinkPatience = std::chrono::seconds(20);

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends)) return;
    std::string error, server_error;
    transport::Tls server;
    std::thread other([&] {
      transport::Tls::open_with_key(ends[1], transport::Role::server, key, kHandshakeMs, server,
                                    server_error);
    });
    transport::Tls::open_with_key(ends[0], transport::Role::client, key, kHandshakeMs, client,
                                  error);
    other.join();
    link = std::make_unique<Link>(std::move(server));
  }

  // Receives until `done`.
  template <typename F>
  bool receive_until(F done) {
    std::vector<uint8_t> records;
    auto end = std::chrono::steady_clock::now() + kLinkPatience;
    while (!done() && std::chrono::steady_clock::now() < end) link->receive(records, 1, 1);
    return done();
  }

  transport::Secret key{};
  transport::Tls client;
  std::unique_ptr<Link> link;
};

// A thread that sends waits at the budget. The receiving thread goes on, and makes room when the
// client reads.
TEST_F(LinkTest, SenderWaitsWhileTheClientReadsNothing) {
  std::vector<uint8_t> frame(kFrameBytes);
  std::atomic<size_t> sent{0};
  std::thread sender([&] {
    for (; sent < kFrames; ++sent) link->send(wire::Frame::data, frame.data(), frame.size());
  });
  EXPECT_TRUE(receive_until([&] { return !link->has_room(); }));
  EXPECT_LT(sent, kFrames / 2);
  std::atomic<bool> reading{true};
  std::thread reader([&] {
    std::vector<uint8_t> bytes(kFrameBytes);
    while (reading)
      if (client.read_some(bytes.data(), bytes.size()) == 0) std::this_thread::yield();
  });
  EXPECT_TRUE(receive_until([&] { return sent == kFrames; }));
  sender.join();
  reading = false;
  reader.join();
}

TEST_F(LinkTest, SenderGoesOnWhenTheClientIsGone) {
  std::vector<uint8_t> frame(kFrameBytes);
  auto sender = std::async(std::launch::async, [&] {
    for (size_t i = 0; i < kFrames; ++i) link->send(wire::Frame::data, frame.data(), frame.size());
  });
  EXPECT_TRUE(receive_until([&] { return !link->has_room(); }));
  client.close();
  EXPECT_TRUE(receive_until([&] { return !link->alive(); }));
  EXPECT_EQ(sender.wait_for(kLinkPatience), std::future_status::ready);
}

TEST_F(LinkTest, ClientThatReadsNothingAndSendsNoMoreIsGone) {
  std::vector<uint8_t> frame(kFrameBytes), records;
  auto sender = std::async(std::launch::async, [&] {
    for (size_t i = 0; i < kFrames; ++i) link->send(wire::Frame::data, frame.data(), frame.size());
  });
  EXPECT_TRUE(receive_until([&] { return !link->has_room(); }));
  shutdown(client.fd(), SHUT_WR);
  EXPECT_TRUE(receive_until([&] { return !link->alive(); }));
  EXPECT_FALSE(link->receive(records, 1, 1));
  EXPECT_EQ(sender.wait_for(kLinkPatience), std::future_status::ready);
}

TEST_F(LinkTest, TakesNoRecordsWhileItWaitsForTheClientToClose) {
  auto waiter = std::async(std::launch::async, [&] { link->wait_for_close(); });
  ASSERT_TRUE(receive_until([&] { return !link->has_room(); }));
  ASSERT_EQ(client.write_some("x", 1), 1);
  std::vector<uint8_t> records;
  EXPECT_TRUE(link->receive(records, 1, 1));
  EXPECT_TRUE(records.empty());
  client.close();
  EXPECT_EQ(waiter.wait_for(kLinkPatience), std::future_status::ready);
}

}  // namespace
}  // namespace busbar::server
