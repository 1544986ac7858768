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

namespace busbar::launcher {

namespace {
constexpr uint64_t kKeepClosedSeconds = 120;  // so that a report carries the end of every session
uint64_t monotonic_seconds() {
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
  std::string path = record_path(s.record.id), fresh = path + ".new";
  int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool ok = ::write(fd, &s, sizeof s) == (ssize_t)sizeof s;
  ::close(fd);
  if (ok) rename(fresh.c_str(), path.c_str());
}

void Sessions::learn_refused(Session& s) {
  std::string names = grants_.refused(s.record.allocation, (pid_t)s.record.pid, s.start_time);
  if (!names.empty()) std::snprintf(s.record.refused, sizeof s.record.refused, "%s", names.c_str());
}

void Sessions::close_session(Session& s, const std::string& reason) {
  if (s.record.state == (uint32_t)control::SessionState::closed) return;
  learn_refused(s);
  s.record.state = (uint32_t)control::SessionState::closed;
  s.record.memory_bytes = 0;
  std::memset(s.record.partition_bytes, 0, sizeof s.record.partition_bytes);
  std::snprintf(s.record.reason, sizeof s.record.reason, "%s", reason.c_str());
  s.closed_monotonic = monotonic_seconds();
  unlink(record_path(s.record.id).c_str());
  unlink(socket_path(s.record.id).c_str());
  std::fprintf(stderr, "session %s closed: %s\n", hex(s.record.id, 16).c_str(), reason.c_str());
}

bool Sessions::ask(const Session& s, control::Kind kind, const void* body, uint32_t bytes,
                   int attached, control::SessionStatus* answer) const {
  int fd = control::connect_to(socket_path(s.record.id).c_str());
  if (fd < 0) return false;
  timeval patience{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ucred peer{};
  socklen_t n = sizeof peer;
  bool right =
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (uint32_t)peer.pid == s.record.pid;
  control::Header h;
  bool ok = right && control::send_message(fd, kind, body, bytes, attached) &&
            (!answer || (control::receive_message(fd, h, answer, sizeof *answer) &&
                         h.bytes == sizeof *answer));
  ::close(fd);
  return ok;
}

bool Sessions::attach(const uint8_t* id, int client_fd) {
  Session s;
  {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find(hex(id, 16));
    if (it == sessions_.end() || it->second.record.state == (uint32_t)control::SessionState::closed)
      return false;
    s = it->second;
  }
  return ask(s, control::Kind::attach, nullptr, 0, client_fd, nullptr);
}

static std::string exit_reason(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status) == 0
               ? "the client closed it"
               : "the session server ended with code " + std::to_string(WEXITSTATUS(status)) +
                     "; see the launcher's log";
  if (WIFSIGNALED(status))
    return std::string("the session server was ended by signal ") + strsignal(WTERMSIG(status));
  return "the session server ended";
}

void Sessions::watch() {
  std::lock_guard lock(mutex_);
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& s = it->second;
    bool closed = s.record.state == (uint32_t)control::SessionState::closed;
    if (closed && monotonic_seconds() - s.closed_monotonic > kKeepClosedSeconds) {
      it = sessions_.erase(it);
      continue;
    }
    ++it;
    if (closed) continue;
    int status = 0;
    if (s.mine && waitpid((pid_t)s.record.pid, &status, WNOHANG) == (pid_t)s.record.pid) {
      close_session(s, exit_reason(status));
      continue;
    }
    if (server::process_start_time((pid_t)s.record.pid) != s.start_time) {
      close_session(s, "the session server ended");
      continue;
    }
    if (grants_.holds(s.record.allocation, s.fence_epoch, s.fence_counter)) continue;
    control::EndReason reason{"its allocation was released"};
    if (!ask(s, control::Kind::end, &reason, sizeof reason, -1, nullptr))
      kill((pid_t)s.record.pid, SIGKILL);
  }
}

std::vector<control::SessionRecord> Sessions::list() {
  std::vector<Session> copy;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, s] : sessions_) copy.push_back(s);
  }
  std::vector<control::SessionRecord> out;
  for (auto& s : copy) {
    control::SessionStatus status{};
    if (s.record.state == (uint32_t)control::SessionState::running &&
        ask(s, control::Kind::status, nullptr, 0, -1, &status)) {
      s.record.bytes_in = status.bytes_in;
      s.record.bytes_out = status.bytes_out;
      s.record.launches = status.launches;
      s.record.memory_bytes = status.memory_bytes;
      std::memcpy(s.record.partition_bytes, status.partition_bytes, sizeof status.partition_bytes);
      s.record.isolation = status.isolation;
      learn_refused(s);
      std::lock_guard lock(mutex_);
      if (auto it = sessions_.find(hex(s.record.id, 16));
          it != sessions_.end() && it->second.record.state == s.record.state)
        it->second.record = s.record;
    }
    out.push_back(s.record);
  }
  return out;
}

void Sessions::end_all(const char* text) {
  std::vector<Session> copy;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, s] : sessions_)
      if (s.record.state != (uint32_t)control::SessionState::closed) copy.push_back(s);
  }
  control::EndReason reason{};
  std::snprintf(reason.text, sizeof reason.text, "%s", text);
  for (auto& s : copy)
    if (!ask(s, control::Kind::end, &reason, sizeof reason, -1, nullptr))
      kill((pid_t)s.record.pid, SIGKILL);
}

}  // namespace busbar::launcher
