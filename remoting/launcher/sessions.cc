#include "launcher/sessions.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "control/hex.h"
#include "control/log.h"
#include "transport/session_keys.h"

namespace busbar::launcher {

using control::hex;
using control::SessionState;

namespace {
constexpr uint64_t kKeepClosedSeconds = 120;  // so that the agent sees the end of every session
constexpr int kRequestSeconds = 1;

uint64_t boottime_seconds() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (uint64_t)t.tv_sec;
}
}  // namespace

Sessions::Sessions(const Settings& settings, Grants& grants)
    : settings_(settings), grants_(grants) {
  for (const char* sub : {"", "/sessions", "/ledgers", "/images"})
    mkdir((settings.runtime + sub).c_str(), 0700);
}

std::string Sessions::socket_path(const uint8_t* id) const {
  return settings_.runtime + "/sessions/" + hex(id, 8) + ".sock";
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

void Sessions::update_refused_calls(Session& s) {
  std::string names = grants_.refused_calls(s.record.allocation, (pid_t)s.record.pid, s.start_time);
  if (!names.empty())
    std::snprintf(s.record.refused_calls, sizeof s.record.refused_calls, "%s", names.c_str());
}

void Sessions::close_session(Session& s, const std::string& reason) {
  if (s.record.state == (uint32_t)SessionState::closed) return;
  update_refused_calls(s);
  s.record.state = (uint32_t)SessionState::closed;
  s.record.memory_bytes = 0;
  std::memset(s.record.partition_bytes, 0, sizeof s.record.partition_bytes);
  std::snprintf(s.record.reason, sizeof s.record.reason, "%s", reason.c_str());
  s.closed_boottime = boottime_seconds();
  unlink(record_path(s.record.id).c_str());
  unlink(socket_path(s.record.id).c_str());
  control::log_line("launcher", "session closed", hex(s.record.id, 16), reason);
}

bool Sessions::request(const Session& s, control::Kind kind, const void* body, uint32_t bytes,
                       int attached, control::SessionStatus* status) const {
  int fd = control::connect_to(socket_path(s.record.id).c_str());
  if (fd < 0) return false;
  timeval timeout{kRequestSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ucred peer{};
  socklen_t n = sizeof peer;
  bool same =
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (uint32_t)peer.pid == s.record.pid;
  control::Header h;
  bool ok = same && control::send_message(fd, kind, body, bytes, attached) &&
            (!status || (control::receive_message(fd, h, status, sizeof *status) &&
                         h.body_bytes == sizeof *status));
  ::close(fd);
  return ok;
}

// Asks the session server to end, and kills it if it does not answer.
void Sessions::end(const Session& s, const char* text) const {
  control::EndReason reason{};
  std::snprintf(reason.text, sizeof reason.text, "%s", text);
  if (!request(s, control::Kind::end, &reason, sizeof reason)) kill((pid_t)s.record.pid, SIGKILL);
}

bool Sessions::admit_bulk(const wire::BulkRequest& request) {
  std::lock_guard lock(mutex_);
  auto it = sessions_.find(hex(request.session, 16));
  if (it == sessions_.end() || it->second.record.state == (uint32_t)SessionState::closed ||
      request.counter <= it->second.bulk_counter ||
      !transport::has_valid_proof(request, it->second.attach_key))
    return false;
  it->second.bulk_counter = request.counter;
  save(it->second);
  return true;
}

bool Sessions::attach(const uint8_t* id, int client_fd) {
  Session s;
  {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find(hex(id, 16));
    if (it == sessions_.end() || it->second.record.state == (uint32_t)SessionState::closed)
      return false;
    s = it->second;
  }
  return request(s, control::Kind::attach, nullptr, 0, client_fd);
}

static std::string exit_reason(int status) {
  if (WIFSIGNALED(status))
    return std::string("the session server was ended by signal ") + strsignal(WTERMSIG(status));
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 0) return "the client closed it";
  return "the session server ended with code " + std::to_string(code) + "; see the launcher's log";
}

void Sessions::watch() {
  std::lock_guard lock(mutex_);
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& s = it->second;
    bool closed = s.record.state == (uint32_t)SessionState::closed;
    if (closed && boottime_seconds() - s.closed_boottime > kKeepClosedSeconds) {
      it = sessions_.erase(it);
      continue;
    }
    ++it;
    if (closed) continue;
    int status = 0;
    if (s.is_child && waitpid((pid_t)s.record.pid, &status, WNOHANG) == (pid_t)s.record.pid)
      close_session(s, exit_reason(status));
    else if (server::process_start_time((pid_t)s.record.pid) != s.start_time)
      close_session(s, "the session server ended");
    else if (!grants_.permits(s.record.allocation, s.fence_epoch, s.fence_counter))
      end(s, "its allocation was released");
  }
}

std::vector<Session> Sessions::copy_sessions() {
  std::lock_guard lock(mutex_);
  std::vector<Session> copy;
  for (auto& [id, s] : sessions_) copy.push_back(s);
  return copy;
}

// Reads the status of a running session. False if it does not answer.
bool Sessions::refresh(Session& s) {
  control::SessionStatus status{};
  if (!request(s, control::Kind::status, nullptr, 0, -1, &status)) return false;
  s.record.bytes_in = status.bytes_in;
  s.record.bytes_out = status.bytes_out;
  s.record.launches = status.launches;
  s.record.memory_bytes = status.memory_bytes;
  std::memcpy(s.record.partition_bytes, status.partition_bytes, sizeof status.partition_bytes);
  s.record.isolation = status.isolation;
  update_refused_calls(s);
  return true;
}

std::vector<control::SessionRecord> Sessions::list() {
  std::vector<control::SessionRecord> records;
  for (auto& s : copy_sessions()) {
    if (s.record.state == (uint32_t)SessionState::running && refresh(s)) {
      std::lock_guard lock(mutex_);
      auto it = sessions_.find(hex(s.record.id, 16));
      if (it != sessions_.end() && it->second.record.state == s.record.state)
        it->second.record = s.record;
    }
    records.push_back(s.record);
  }
  return records;
}

void Sessions::end_all(const char* reason) {
  for (auto& s : copy_sessions())
    if (s.record.state != (uint32_t)SessionState::closed) end(s, reason);
}

}  // namespace busbar::launcher
