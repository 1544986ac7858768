// Serves the requests of sessions to their ledgers, and releases the charges of sessions whose
// server has ended. A session that breaks the protocol or does not read loses its connection.
//
// Thread safety: run() belongs to one thread; the other members are for any thread. mutex_ guards
// the sockets. Nothing blocks but run().
#pragma once
#include <map>
#include <mutex>

#include "launcher/ledgers.h"

namespace busbar::launcher {

class LedgerPort {
 public:
  explicit LedgerPort(Ledgers& ledgers);
  [[noreturn]] void run();

  // Replaces the connection of a session. Returns the end for its server, or -1. The charges end
  // with the process of `pidfd`.
  int connect(const Account& account, int pidfd);
  bool is_connected(const SessionId& session);

 private:
  struct Watched {
    Account account;
    bool is_process;
  };
  bool watch(int fd, const Watched& watched);
  void forget(int fd);
  void serve(int fd);
  bool serve_request(int fd, const Account& account);
  Ledgers& ledgers_;
  const int epoll_;
  std::mutex mutex_;
  std::map<int, Watched> watched_;      // by descriptor
  std::map<SessionId, int> sockets_;    // the connection of a session
  std::map<SessionId, int> processes_;  // a pidfd of its server
};

}  // namespace busbar::launcher
