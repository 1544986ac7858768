// The session servers of this node: started here, or found after a restart by their records and
// control sockets.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/grants.h"
#include "transport/tls.h"

namespace busbar::launcher {

struct Settings {
  std::string runtime, session_program, driver, certificate, key, listen_address = "127.0.0.1";
  int port = 8445;
};

// A session as the launcher keeps it, and as it lies on disk.
struct Session {
  control::SessionRecord record{};
  uint64_t start_time = 0;  // of the process: a pid alone may be somebody else's
  uint64_t fence_epoch = 0, fence_counter = 0;
  uint32_t mine = 0, reserved = 0;  // a child of this launcher: its exit is collected here
  uint64_t closed_monotonic = 0;
};

class Sessions {
 public:
  Sessions(const Settings& settings, Grants& grants);

  // spawn.cc: forks a session server for the client behind `tls` and hands the connection over.
  void open(transport::Tls tls, const Ticket& ticket, const Grant& grant,
            const wire::OpenRequest& request, const std::string& client_address);
  bool attach(const uint8_t* session, int client_fd);  // a bulk connection for a running session

  void keep_spare();  // starts the process of the next session, so that nobody waits for its driver

  // adopt.cc: sessions that an earlier launcher started and that still run.
  unsigned adopt();

  void watch();  // ends what the grants no longer hold, notices what died; every half second
  std::vector<control::SessionRecord> list();
  void end_all(const char* reason);

 private:
  struct Waiting {
    pid_t pid = -1;
    int fd = -1;
  };
  Waiting spawn() const;
  Waiting take_spare();
  void save(const Session& s) const;
  void learn_refused(Session& s);
  void close_session(Session& s, const std::string& reason);
  std::string socket_path(const uint8_t* id) const;
  std::string record_path(const uint8_t* id) const;
  bool ask(const Session& s, control::Kind kind, const void* body, uint32_t bytes, int attached,
           control::SessionStatus* answer) const;
  const Settings& settings_;
  Grants& grants_;
  std::mutex mutex_;
  std::map<std::string, Session> sessions_;  // by id in hexadecimal
  Waiting spare_;
};

}  // namespace busbar::launcher
