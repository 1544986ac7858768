// Connections whose clients have not proved the key of their ticket yet. A ticket and the first
// record of TLS travel in clear text, so strangers can repeat both. Such a connection therefore
// holds no thread: one thread advances all handshakes. At a limit, the oldest connection of the
// network with the most makes room.
//
// Thread safety: add() from any thread, run() on one. The receiver and the log are called on the
// thread of run(), without the mutex.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>

#include "launcher/opening.h"
#include "mutex.h"

namespace busbar::launcher {

class Openings {
 public:
  // Gets each opening whose request is complete.
  using Receiver = std::function<void(std::shared_ptr<Opening>)>;
  using RefusalWriter = std::function<void(const Opening&, const std::string& reason)>;
  Openings(size_t limit, size_t limit_by_network, Receiver receiver, RefusalWriter refuse);

  // Adds an opening whose first TLS record has arrived. The deadline is not before earlier ones.
  void add(std::shared_ptr<Opening> opening, int64_t deadline_ms);
  [[noreturn]] void run();

 private:
  std::shared_ptr<Opening> find(int fd);
  void advance(const std::shared_ptr<Opening>& opening);
  bool remove(const std::shared_ptr<Opening>& opening);
  void remove_expired();
  int next_timeout_ms();
  const Receiver receiver_;
  const RefusalWriter refuse_;
  const int epoll_;
  Mutex mutex_;
  PendingConnections pending_ GUARDED_BY(mutex_);
  std::unordered_map<int, std::shared_ptr<Opening>> by_fd_ GUARDED_BY(mutex_);
};

}  // namespace busbar::launcher
