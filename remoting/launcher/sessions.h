// The session servers of this node: started by this launcher, or adopted from an earlier one.
//
// Thread safety: any thread. mutex_ is not held while a session server is requested to do
// something. No request waits for a session server longer than its deadline; a session that ends
// too slowly is killed.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/grants.h"
#include "launcher/ledger_port.h"
#include "launcher/session_processes.h"
#include "launcher/session_requests.h"
#include "launcher/session_start.h"
#include "mutex.h"
#include "transport/tls.h"

namespace busbar::launcher {

struct Settings {
  std::string runtime, driver, listen_address = "127.0.0.1";
  std::string cache;  // persistent folder of module images; empty: they are kept in `runtime`
  int port = 8445;
  uint64_t suspended_bytes = 0;  // host memory for suspended sessions

  std::string images() const { return (cache.empty() ? runtime : cache) + "/images"; }
};

// A session in memory and, with the same layout, on disk.
struct Session {
  control::SessionRecord record{};
  uint64_t start_time = 0;  // of the process: a pid alone may belong to a later process
  uint64_t fence_epoch = 0;
  uint64_t fence_counter = 0;
  int32_t pidfd = -1;            // in memory only
  int32_t exit_pipe = -1;        // gets the exit status, in memory only
  int32_t violations = -1;       // descriptor of launcher/violations.h, in memory only
  uint32_t ended_seconds = 0;    // CLOCK_MONOTONIC when its exit status was first missing
  uint64_t closed_boottime = 0;  // CLOCK_BOOTTIME, in seconds
  uint64_t bulk_counter = 0;     // of the newest bulk connection
  transport::Secret attach_key{};
  int64_t kill_at_ms = 0;  // of transport::now_ms(), in memory only. 0: it may continue
};

class Sessions {
 public:
  Sessions(const Settings& settings, Grants& grants, Ledgers& ledgers, LedgerPort& ledger_port,
           Arbiters& arbiters);

  // Opens a session for the client behind `tls`: starts a session server, hands the connection over
  // and replies to the client. Blocks until the server is ready. Defined in open.cc.
  void open(transport::Tls tls, const Ticket& ticket, const control::Allocation& grant,
            const wire::OpenRequest& request, const std::string& client_address);
  // Tells a client why it gets no session. Does not block.
  static void turn_away(transport::Tls& tls, const char* reason);
  // Checks that the client of a bulk connection holds the key of the session, and that its request
  // is not a repeated one.
  bool admit_bulk(const wire::BulkRequest& request);
  // Passes a bulk connection to a running session. False if there is none.
  bool attach(const wire::BulkRequest& request, int client_fd);

  // Starts spare session servers, so that sessions do not wait for the driver: as many as
  // Grants::expected_programs(). Ends those of other GPUs. Blocks until they are started.
  void start_spares() {
    processes_.start_spares([this] { return grants_.expected_programs(); });
  }

  // Takes over the sessions that an earlier launcher started. A record counts only if its process
  // is the same. Returns their number. Defined in adopt.cc.
  unsigned adopt();

  // Tells the running sessions of these allocations that their limits have changed. One that cannot
  // be told sees the new limits on the page of its ledger.
  void announce_limits(const std::set<std::string>& allocations);
  // Closes sessions whose process has ended. Ends sessions that the grants no longer permit, and
  // those whose work is late for too long.
  void watch();
  // Returns all sessions, including those that ended in the last two minutes.
  std::vector<control::SessionRecord> list();
  // Returns the layers that are in force for all sessions, as bits of control::Isolation. 0: no
  // session server has been started yet.
  uint32_t isolation();
  bool contains(pid_t pid);  // true for the process of a session that has not ended
  // Kills a session, whose record shows the reason. False if there is none that runs.
  bool kill_session(const control::KillSession& request);
  // Suspend a session, and resume it before it has work (ADR 84). They return at once; the reason
  // is empty if the session was told. Defined in suspensions.cc, as is suspensions().
  std::string suspend(const control::SuspendSession& request);
  std::string resume(const uint8_t* id);
  // Returns the sessions that have a suspension, or had one that was abandoned.
  std::vector<control::SuspensionRecord> suspensions(control::SuspensionList& head);
  // Ends all sessions. Blocks until they have ended, but not longer than the deadline of an end.
  void end_all(const char* reason);

 private:
  // The session server's end of a connection to its ledger or to the arbiters.
  struct NewConnection {
    SessionAddress server;
    control::Kind kind;
    int socket;
  };
  control::SessionStart start_message(const control::Allocation& grant,
                                      const wire::OpenRequest& request, bool caged) const;
  void add(const Session& s);
  control::SessionSockets bind_sockets(const control::SessionRecord& record, int client,
                                       int rendezvous) const;
  static std::unique_ptr<control::SessionReady> start_server(int server,
                                                             control::SessionStart& start,
                                                             control::SessionSockets sockets,
                                                             int& violations);
  static void give_up(transport::Tls& tls, const SessionProcess& process, const char* reason);
  void set_running(const std::string& id, uint32_t isolation, int violations, int server);
  void save(const Session& s) const REQUIRES(mutex_);
  void update_charges(Session& s) REQUIRES(mutex_);
  void connect_missing(const Session& s, std::vector<NewConnection>& made) REQUIRES(mutex_);
  std::vector<NewConnection> connect_accounts() REQUIRES(mutex_);
  void close_session(Session& s, const std::string& reason) REQUIRES(mutex_);
  bool has_exited(Session& s, std::string& reason) REQUIRES(mutex_);
  void note_reason(Session& s, const char* reason) REQUIRES(mutex_);
  std::string reason_to_end(const Session& s, const std::map<SessionId, uint32_t>& too_late);
  bool must_end(Session& s, const std::map<SessionId, uint32_t>& too_late) REQUIRES(mutex_);
  void kill(const Session& s) EXCLUDES(mutex_);
  void end(const std::vector<Session>& sessions) EXCLUDES(mutex_);
  std::vector<StatusQuery> queries();
  void update(const StatusQuery& answer) REQUIRES(mutex_);
  void adopt_record(const std::string& path, unsigned& adopted);
  static Account account_of(const Session& s);
  std::optional<Session> find_running(const uint8_t* id);
  void watch_suspensions();
  SessionAddress address_of(const Session& s) const {
    return {socket_path(s.record, control::kControlSocket), (pid_t)s.record.pid};
  }
  std::string socket_path(const control::SessionRecord& record, const char* kind) const;
  std::string record_path(const uint8_t* id) const;
  const Settings& settings_;
  Grants& grants_;
  Ledgers& ledgers_;
  LedgerPort& ledger_port_;
  Arbiters& arbiters_;
  SessionProcesses processes_;
  Mutex mutex_;
  std::map<std::string, Session> sessions_ GUARDED_BY(mutex_);  // by id in hexadecimal
};

}  // namespace busbar::launcher
