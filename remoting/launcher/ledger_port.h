// Serves the requests of sessions to their ledgers, and releases the charges of sessions whose
// server has ended. Tells sessions that another one needs what they do not use. A session that
// breaks the protocol or does not read loses its connection.
//
// Thread safety: run() belongs to one thread; the other members are for any thread. Nothing blocks
// but run().
#pragma once
#include <atomic>
#include <list>
#include <map>
#include <optional>

#include "launcher/fair_mutex.h"
#include "launcher/ledgers.h"
#include "launcher/session_requests.h"

namespace busbar::launcher {

class LedgerPort {
 public:
  explicit LedgerPort(Ledgers& ledgers);
  [[noreturn]] void run();

  // Adds a session to its ledger, unless it is there, and replaces its connection. Returns the end
  // for its server, or -1. The charges end with the process of `pidfd`. `server` gets a message
  // when another session needs memory.
  int connect(const Account& account, uint32_t client_pid, int pidfd, const SessionAddress& server);
  bool is_connected(const SessionId& session);
  // Answers requests for memory that is free now. Releases of sessions do so, too.
  void serve_waiting();

 private:
  struct Watched {
    Account account;
    bool is_process;
    std::optional<control::LedgerRequest> waiting;  // for free memory
    SessionAddress server;
  };
  bool watch(int fd, const Watched& watched) REQUIRES(mutex_);
  void forget(int fd) REQUIRES(mutex_);
  void serve(int fd);
  bool serve_request(int fd, Watched& watched) REQUIRES(mutex_);
  bool answer(int fd, Watched& watched, const control::LedgerRequest& request) REQUIRES(mutex_);
  void serve_waiting(const std::string* allocation) REQUIRES(mutex_);
  void ask(const std::string& allocation) REQUIRES(mutex_);
  void expire_asked();
  Ledgers& ledgers_;
  const int epoll_;
  FairMutex mutex_;
  std::map<int, Watched> watched_ GUARDED_BY(mutex_);      // by descriptor
  std::map<SessionId, int> sockets_ GUARDED_BY(mutex_);    // the connection of a session
  std::map<SessionId, int> processes_ GUARDED_BY(mutex_);  // a pidfd of its server
  std::list<int> waiting_ GUARDED_BY(mutex_);  // connections with such a request, oldest first
  std::atomic<bool> asking_{false};            // sessions have been asked for unused memory
  int64_t next_expiry_ms_ = 0;                 // of the thread in run()
};

}  // namespace busbar::launcher
