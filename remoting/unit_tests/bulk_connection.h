// Both ends of a bulk connection in one process.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::server {

constexpr int kPatienceMs = 60'000;  // for an event that comes at once on an idle machine

struct BulkConnection {
  BulkConnection() {
    signal(SIGPIPE, SIG_IGN);  // as the session server does
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    std::thread other([&] { EXPECT_TRUE(open(ends[0], transport::Role::client, client)); });
    EXPECT_TRUE(open(ends[1], transport::Role::server, server));
    other.join();
  }
  // Sends a chunk as a client does.
  void send(uint64_t transfer, uint64_t offset, const std::vector<uint8_t>& chunk) {
    wire::BulkHeader h{transfer, offset, chunk.size()};
    EXPECT_TRUE(client.write_all(&h, sizeof h, kPatienceMs));
    EXPECT_TRUE(client.write_all(chunk.data(), chunk.size(), kPatienceMs));
  }

  transport::Tls client, server;

 private:
  static bool open(int fd, transport::Role role, transport::Tls& tls) {
    std::string error;
    return transport::Tls::open_with_key(fd, role, {1, 2, 3}, kPatienceMs, tls, error);
  }
};

}  // namespace busbar::server
