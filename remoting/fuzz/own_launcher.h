// The launcher's part of one session's account, in this process: for fuzzers and unit tests.
#pragma once
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "launcher/ledger_port.h"
#include "launcher/pidfd.h"
#include "server/account.h"

namespace busbar::fuzz {

class OwnLauncher {
 public:
  static constexpr char kAllocation[] = "ledger";

  // The ledger is the file `ledger` in the folder.
  OwnLauncher(const std::string& folder, const std::vector<uint64_t>& limits)
      : ledgers_(*new launcher::Ledgers(folder)), port_(*new launcher::LedgerPort(ledgers_)) {
    ledgers_.set_limits(kAllocation, limits.data(), (uint32_t)limits.size());
    std::thread([port = &port_] { port->run(); }).detach();
  }

  launcher::Ledgers& ledgers() { return ledgers_; }
  // Opens the account of a session whose server is this process. Returns the server's end of the
  // connection; -1 when the ledger has no room.
  int connect_socket(uint8_t session, uint32_t client_pid) {
    launcher::Account a{kAllocation, {session}};
    int pidfd = launcher::open_pidfd(getpid());
    int socket = port_.connect(a, client_pid, pidfd, {"", getpid()});
    close(pidfd);
    return socket;
  }
  bool connect(server::Account& account, uint8_t session = 1, uint32_t client_pid = 1) {
    int socket = connect_socket(session, client_pid);
    if (socket >= 0) account.connect(socket);
    return socket >= 0;
  }

 private:
  // They live as long as the process: the thread uses them.
  launcher::Ledgers& ledgers_;
  launcher::LedgerPort& port_;
};

}  // namespace busbar::fuzz
