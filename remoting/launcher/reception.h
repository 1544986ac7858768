// Receives the first bytes of all connections on one thread: preamble, and ticket or proof. A
// ticket is followed by the first record of TLS. Only complete ones reach the receiver.
//
// Thread safety: one thread.
#pragma once
#include <functional>

#include "launcher/pending_connections.h"

namespace busbar::launcher {

// Receives a connection with complete first bytes and takes over its descriptor.
using Receiver = std::function<void(PendingConnection)>;

class Reception {
 public:
  // Closes connections whose first bytes are not complete after `patience_ms`.
  Reception(int listener, int patience_ms, Receiver receiver);
  [[noreturn]] void run();

 private:
  void accept_connections();
  void add(int fd);
  void read(int fd, bool has_ended);
  void close_connection(int fd);
  int listener_, patience_ms_, epoll_;
  Receiver receiver_;
  PendingConnections pending_;
};

}  // namespace busbar::launcher
