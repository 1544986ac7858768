#include "launcher/sessions.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "control/hex.h"
#include "control/log.h"
#include "control/session_ends.h"
#include "launcher/end_reason.h"
#include "launcher/pidfd.h"
#include "launcher/violations.h"
#include "transport/clock.h"
#include "transport/session_keys.h"

namespace busbar::launcher {

using control::hex;
using control::SessionState;

namespace {
constexpr uint64_t kKeepClosedSeconds = 120;  // so that the agent sees the end of every session
constexpr int kStatusMs = 100;                // for all sessions; agents wait this long
constexpr int64_t kEndMs = 2000;              // a session that has not ended by then is killed
constexpr int kEndPollMs = 10;
constexpr uint64_t kNoStatusSeconds = 10;  // longer: the spawner is stopped

uint64_t seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec;
}

uint64_t boottime_seconds() {
  return seconds_of(CLOCK_BOOTTIME);
}
}  // namespace

Sessions::Sessions(const Settings& settings, Grants& grants, Ledgers& ledgers,
                   LedgerPort& ledger_port, Arbiters& arbiters)
    : settings_(settings),
      grants_(grants),
      ledgers_(ledgers),
      ledger_port_(ledger_port),
      arbiters_(arbiters),
      processes_(settings.runtime) {
  for (const char* sub : {"", "/sessions", "/ledgers"})
    mkdir((settings.runtime + sub).c_str(), 0700);
  if (!settings.cache.empty()) mkdir(settings.cache.c_str(), 0700);
  mkdir(settings.images().c_str(), 0700);
}

// In a folder that all cages of the allocation have, and none can change.
std::string Sessions::socket_path(const control::SessionRecord& record, const char* kind) const {
  return settings_.runtime + "/sessions/" + hex(record.allocation, 16) + "/" + hex(record.id, 8) +
         kind;
}
std::string Sessions::record_path(const uint8_t* id) const {
  return settings_.runtime + "/sessions/" + hex(id, 16) + ".record";
}

void Sessions::save(const Session& s) const {
  std::string path = record_path(s.record.id), temporary = path + ".new";
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool ok = ::write(fd, &s, sizeof s) == (ssize_t)sizeof s;
  ::close(fd);
  if (ok) rename(temporary.c_str(), path.c_str());
}

Account Sessions::account_of(const Session& s) {
  Account account{hex(s.record.allocation, 16), {}};
  std::copy_n(s.record.id, account.session.size(), account.session.begin());
  return account;
}

// Reads the values of the record that the ledger holds.
void Sessions::update_charges(Session& s) {
  Account account = account_of(s);
  auto charged = ledgers_.charged_by(account);
  std::copy(charged.begin(), charged.end(), s.record.partition_bytes);
  s.record.memory_bytes = std::reduce(charged.begin(), charged.end());
  std::snprintf(s.record.refused_calls, sizeof s.record.refused_calls, "%s",
                ledgers_.refused_calls(account).c_str());
}

// Connects a session to its ledger and to the arbiters, unless it is connected.
void Sessions::connect_missing(const Session& s, std::vector<NewConnection>& made) {
  Account account = account_of(s);
  SessionAddress server = address_of(s);
  auto add = [&](control::Kind kind, int socket) {
    if (socket >= 0) made.push_back({server, kind, socket});
  };
  if (!ledger_port_.is_connected(account.session))
    add(control::Kind::account,
        ledger_port_.connect(account, s.record.client_pid, s.pidfd, server));
  if (!arbiters_.is_connected(account.session))
    add(control::Kind::turns, arbiters_.connect(account));
}

// Connects running sessions that have no connection: an earlier launcher started them, or they lost
// it. Accounts without a session end.
std::vector<Sessions::NewConnection> Sessions::connect_accounts() {
  std::vector<NewConnection> made;
  std::set<SessionId> known;
  for (auto& [id, s] : sessions_) {
    SessionId session = account_of(s).session;
    if (s.record.state != (uint32_t)SessionState::closed) known.insert(session);
    if (s.record.state == (uint32_t)SessionState::running) connect_missing(s, made);
  }
  ledgers_.remove_others([&](const SessionId& id) { return known.count(id) > 0; });
  return made;
}

void Sessions::close_session(Session& s, const std::string& reason) {
  if (s.record.state == (uint32_t)SessionState::closed) return;
  update_charges(s);
  ledgers_.remove(account_of(s));
  s.record.state = (uint32_t)SessionState::closed;
  s.record.memory_bytes = 0;
  std::memset(s.record.partition_bytes, 0, sizeof s.record.partition_bytes);
  std::snprintf(s.record.reason, sizeof s.record.reason, "%s", reason.c_str());
  s.closed_boottime = boottime_seconds();
  unlink(record_path(s.record.id).c_str());
  for (auto* kind : {control::kControlSocket, control::kOffersSocket})
    unlink(socket_path(s.record, kind).c_str());
  for (int* fd : {&s.pidfd, &s.violations, &s.exit_pipe}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  control::log_line("launcher", "session closed", hex(s.record.id, 16), reason);
}

bool Sessions::admit_bulk(const wire::BulkRequest& request) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(hex(request.session, 16));
  if (it == sessions_.end() || it->second.record.state == (uint32_t)SessionState::closed ||
      request.counter <= it->second.bulk_counter ||
      !transport::has_valid_proof(request, it->second.attach_key))
    return false;
  it->second.bulk_counter = request.counter;
  save(it->second);
  return true;
}

bool Sessions::attach(const wire::BulkRequest& request, int client_fd) {
  auto s = find_running(request.session);
  return s && post_request(address_of(*s), control::Kind::attach, &request.counter,
                           sizeof request.counter, client_fd);
}

// Kills a session that has made a system call which it may not make.
static void end_violator(Session& s) {
  std::string call = take_violation(s.violations);
  if (call.empty()) return;
  std::snprintf(s.record.reason, sizeof s.record.reason,
                "it was killed: its session server made the system call %s", call.c_str());
  kill_process(s.pidfd);
}

// Reads the exit status, which the spawner writes when it has collected the process. Returns false
// if it may still come. The pipe ends with the spawner, and an adopted session has none.
static bool read_status(int exit_pipe, std::optional<int>& status) {
  int value = 0;
  ssize_t n = read(exit_pipe, &value, sizeof value);
  if (n == (ssize_t)sizeof value) status = value;
  return n >= 0 || errno != EAGAIN;
}

// A session without a reason needs its exit status: each watch looks again.
bool Sessions::has_exited(Session& s, std::string& reason) {
  if (!has_ended(s.pidfd)) return false;
  std::optional<int> status;
  if (!read_status(s.exit_pipe, status) && !*s.record.reason) {
    uint64_t now = seconds_of(CLOCK_MONOTONIC);  // the spawner stands still with this machine
    if (!s.ended_seconds) s.ended_seconds = (uint32_t)now;
    if (now < s.ended_seconds + kNoStatusSeconds) return false;
  }
  reason =
      reason_of_end(status, s.record.reason, s.record.state == (uint32_t)SessionState::running);
  return true;
}

// The next launcher reads it from the record if this one ends first. A session that exits already
// ends by itself: closing its GPUs can take the kernel a second.
void Sessions::note_reason(Session& s, const char* reason) {
  if (*s.record.reason || is_exiting((pid_t)s.record.pid)) return;
  std::snprintf(s.record.reason, sizeof s.record.reason, "%s", reason);
  save(s);
}

// Returns why the session may not continue; empty if it may.
std::string Sessions::reason_to_end(const Session& s,
                                    const std::map<SessionId, uint32_t>& too_late) {
  if (!grants_.permits(s.record.allocation, s.fence_epoch, s.fence_counter))
    return control::kReleased;
  auto late = too_late.find(account_of(s).session);
  if (late == too_late.end()) return "";
  return control::kTooLate + std::to_string(late->second) + " s while others waited";
}

// Returns true when the session must be told to end, and notes the reason. Kills it if it was told
// and did not.
bool Sessions::must_end(Session& s, const std::map<SessionId, uint32_t>& too_late) {
  if (s.kill_at_ms && transport::now_ms() >= s.kill_at_ms) kill_process(s.pidfd);
  if (s.kill_at_ms) return false;
  std::string reason = reason_to_end(s, too_late);
  if (reason.empty()) return false;
  s.kill_at_ms = transport::now_ms() + kEndMs;
  note_reason(s, reason.c_str());
  return true;
}

// Kills the process of a session by its newest state: once it is closed, another process may have
// the descriptor of a copy.
void Sessions::kill(const Session& s) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(hex(s.record.id, 16));
  if (it != sessions_.end()) kill_process(it->second.pidfd);
}

// Tells sessions to end for the reason that was noted. Kills those that cannot be told.
void Sessions::end(const std::vector<Session>& sessions) {
  for (auto& s : sessions) {
    control::EndReason reason{};
    std::snprintf(reason.text, sizeof reason.text, "%s", s.record.reason);
    if (!post_request(address_of(s), control::Kind::end, &reason, sizeof reason)) kill(s);
  }
}

void Sessions::watch() {
  std::vector<Session> ending;
  std::vector<NewConnection> connections;
  auto too_late = arbiters_.too_late();
  {
    MutexLock lock(mutex_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      Session& s = it->second;
      bool closed = s.record.state == (uint32_t)SessionState::closed;
      if (closed && boottime_seconds() - s.closed_boottime > kKeepClosedSeconds) {
        it = sessions_.erase(it);
        continue;
      }
      ++it;
      if (closed) continue;
      std::string reason;
      end_violator(s);
      if (has_exited(s, reason))
        close_session(s, reason);
      else if (must_end(s, too_late))
        ending.push_back(s);
    }
    connections = connect_accounts();
  }
  end(ending);
  watch_suspensions();
  for (auto& c : connections) {
    post_request(c.server, c.kind, nullptr, 0, c.socket);
    ::close(c.socket);
  }
}

void Sessions::announce_limits(const std::set<std::string>& allocations) {
  if (allocations.empty()) return;
  std::vector<SessionAddress> told;
  {
    MutexLock lock(mutex_);
    for (auto& [id, s] : sessions_)
      if (s.record.state == (uint32_t)SessionState::running &&
          allocations.contains(hex(s.record.allocation, 16)))
        told.push_back(address_of(s));
  }
  for (auto& server : told) post_request(server, control::Kind::resized, nullptr, 0);
}

// Returns a query for each running session.
std::vector<StatusQuery> Sessions::queries() {
  MutexLock lock(mutex_);
  std::vector<StatusQuery> list;
  for (auto& [id, s] : sessions_)
    if (s.record.state == (uint32_t)SessionState::running) list.push_back({id, address_of(s)});
  return list;
}

void Sessions::update(const StatusQuery& answer) {
  auto it = sessions_.find(answer.session);
  if (it == sessions_.end() || it->second.record.state != (uint32_t)SessionState::running) return;
  control::SessionRecord& record = it->second.record;
  const control::SessionStatus& status = answer.status;
  record.bytes_in = status.bytes_in;
  record.bytes_out = status.bytes_out;
  record.launches = status.launches;
}

std::vector<control::SessionRecord> Sessions::list() {
  auto answers = queries();
  read_statuses(answers, kStatusMs);
  MutexLock lock(mutex_);
  for (auto& answer : answers)
    if (answer.has_answered) update(answer);
  std::vector<control::SessionRecord> records;
  for (auto& [id, s] : sessions_) {
    if (s.record.state != (uint32_t)SessionState::closed) update_charges(s);
    arbiters_.limit(account_of(s).session).put(s.record);
    records.push_back(s.record);
  }
  return records;
}

uint32_t Sessions::isolation() {
  MutexLock lock(mutex_);
  uint32_t layers = processes_.newest_layers();
  for (auto& [id, s] : sessions_)
    if (s.record.state == (uint32_t)SessionState::running) layers &= s.record.isolation;
  return layers;
}

bool Sessions::contains(pid_t pid) {
  MutexLock lock(mutex_);
  return std::any_of(sessions_.begin(), sessions_.end(), [&](auto& entry) {
    const control::SessionRecord& r = entry.second.record;
    return r.pid == (uint32_t)pid && r.state != (uint32_t)SessionState::closed;
  });
}

bool Sessions::kill_session(const control::KillSession& request) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(hex(request.id, 16));
  if (it == sessions_.end() || it->second.record.state == (uint32_t)SessionState::closed ||
      is_exiting((pid_t)it->second.record.pid))
    return false;
  char (&reason)[sizeof request.reason] = it->second.record.reason;
  std::snprintf(reason, sizeof reason, "%.*s", (int)sizeof request.reason - 1, request.reason);
  kill_process(it->second.pidfd);
  return true;
}

void Sessions::end_all(const char* reason) {
  std::vector<Session> ending;
  {
    MutexLock lock(mutex_);
    for (auto& [id, s] : sessions_) {
      if (s.record.state == (uint32_t)SessionState::closed) continue;
      note_reason(s, reason);
      ending.push_back(s);
    }
  }
  end(ending);
  int64_t deadline_ms = transport::now_ms() + kEndMs;
  auto all_ended = [&] {
    MutexLock lock(mutex_);
    return std::all_of(sessions_.begin(), sessions_.end(),
                       [](auto& entry) { return has_ended(entry.second.pidfd); });
  };
  while (!all_ended() && transport::now_ms() < deadline_ms) poll(nullptr, 0, kEndPollMs);
  MutexLock lock(mutex_);
  for (auto& [id, s] : sessions_) kill_process(s.pidfd);
}

}  // namespace busbar::launcher
