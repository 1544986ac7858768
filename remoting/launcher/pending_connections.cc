#include "launcher/pending_connections.h"

#include <algorithm>
#include <utility>

namespace busbar::launcher {

std::vector<int> PendingConnections::add(PendingConnection connection) {
  std::vector<int> evicted;
  if (count_by_network_[connection.network] >= limit_by_network_)
    evicted.push_back(
        erase(std::ranges::find(connections_, connection.network, &PendingConnection::network)));
  else if (connections_.size() >= limit_)
    evicted.push_back(erase(oldest_of_largest_network()));
  int fd = connection.fd;
  ++count_by_network_[connection.network];
  by_fd_[fd] = connections_.insert(connections_.end(), std::move(connection));
  return evicted;
}

PendingConnections::Position PendingConnections::oldest_of_largest_network() {
  using Count = std::pair<const std::string, size_t>;
  size_t most = std::ranges::max_element(count_by_network_, {}, &Count::second)->second;
  return std::ranges::find_if(connections_, [&](const PendingConnection& c) {
    return count_by_network_[c.network] == most;
  });
}

PendingConnection* PendingConnections::find(int fd) {
  auto it = by_fd_.find(fd);
  return it == by_fd_.end() ? nullptr : &*it->second;
}

PendingConnection PendingConnections::take(int fd) {
  Position position = by_fd_.at(fd);
  PendingConnection taken = *position;
  erase(position);
  return taken;
}

int PendingConnections::take_oldest() {
  return connections_.empty() ? -1 : erase(connections_.begin());
}

std::vector<int> PendingConnections::take_expired(int64_t now_ms) {
  std::vector<int> expired;
  while (!connections_.empty() && connections_.front().deadline_ms <= now_ms)
    expired.push_back(take_oldest());
  return expired;
}

int PendingConnections::next_deadline_ms(int64_t now_ms) const {
  if (connections_.empty()) return -1;
  return (int)std::max<int64_t>(0, connections_.front().deadline_ms - now_ms);
}

int PendingConnections::erase(Position position) {
  int fd = position->fd;
  auto count = count_by_network_.find(position->network);
  if (--count->second == 0) count_by_network_.erase(count);
  by_fd_.erase(fd);
  connections_.erase(position);
  return fd;
}

}  // namespace busbar::launcher
