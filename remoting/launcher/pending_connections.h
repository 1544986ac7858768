// Connections that are not authenticated yet. They are limited in total and by
// network. At the limit of a network, its oldest one makes room; at the total limit, the oldest one
// of the network with the most. So connections that stay silent exclude no client.
//
// Thread safety: one thread.
#pragma once
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

namespace busbar::launcher {

struct PendingConnection {
  int fd;
  std::string network;  // address of the client, or its IPv6 network
  std::string client;   // address and port, for the log
  int64_t deadline_ms;  // transport::now_ms()
  std::vector<uint8_t> bytes;
};

class PendingConnections {
 public:
  PendingConnections(size_t limit, size_t limit_by_network)
      : limit_(limit), limit_by_network_(limit_by_network) {}

  // Adds a connection, whose deadline is not before those of the others. Returns the descriptors of
  // connections that must be closed to make room.
  std::vector<int> add(PendingConnection connection);
  PendingConnection* find(int fd);
  PendingConnection take(int fd);
  // Removes the oldest connection and returns its descriptor; -1 if there is none.
  int take_oldest();
  // Removes the connections whose deadline has passed and returns their descriptors.
  std::vector<int> take_expired(int64_t now_ms);
  // Returns the time until the next deadline in milliseconds; -1 if there is none.
  int next_deadline_ms(int64_t now_ms) const;
  size_t size() const { return by_fd_.size(); }

 private:
  using Position = std::list<PendingConnection>::iterator;
  Position oldest_of_largest_network();
  int erase(Position position);
  size_t limit_, limit_by_network_;
  std::list<PendingConnection> connections_;  // oldest first
  std::unordered_map<int, Position> by_fd_;
  std::unordered_map<std::string, size_t> count_by_network_;
};

}  // namespace busbar::launcher
