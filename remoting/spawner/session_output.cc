#include "spawner/session_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "control/log.h"
#include "transport/clock.h"

namespace busbar::spawner {

namespace {
constexpr int64_t kBurstBytes = 16 << 10, kBytesPerSecond = 512;
constexpr int64_t kLineBytes = 100;  // that the log adds to a line
constexpr size_t kMaxLineBytes = 1024;
}  // namespace

void SessionOutput::add(int fd, pid_t pid) {
  pipes_[fd] = {pid, "", kBurstBytes, transport::now_ms()};
}

void SessionOutput::refill(Pipe& pipe) {
  int64_t now = transport::now_ms();
  // NOLINTNEXTLINE(custom-unchecked-product): milliseconds since the last call
  int64_t added = (now - pipe.filled_ms) * kBytesPerSecond / 1000;
  if (added <= 0) return;
  pipe.filled_ms = now;
  pipe.budget_bytes = std::min(kBurstBytes, pipe.budget_bytes + added);
}

// Lines beyond the budget are lost: those of the last read, and what a pipe holds at its end.
void SessionOutput::log(Pipe& pipe, const std::string& line) {
  if (line.empty() || pipe.budget_bytes <= 0) return;
  pipe.budget_bytes -= kLineBytes;
  control::log_line("spawner", "session output", "pid " + std::to_string(pipe.pid), line);
}

void SessionOutput::append_to(std::vector<pollfd>& waits) {
  for (auto& [fd, pipe] : pipes_) {
    refill(pipe);
    // Without a budget, only the end of the pipe is of interest.
    waits.push_back({fd, (short)(pipe.budget_bytes > 0 ? POLLIN : 0), 0});
  }
}

void SessionOutput::read(const std::vector<pollfd>& ready) {
  for (const pollfd& p : ready) {
    auto it = pipes_.find(p.fd);
    if (it == pipes_.end() || !p.revents || read(p.fd, it->second)) continue;
    log(it->second, it->second.rest);
    close(p.fd);
    pipes_.erase(it);
  }
}

// False at the end of the pipe.
bool SessionOutput::read(int fd, Pipe& pipe) {
  char buffer[4096];
  ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  pipe.budget_bytes -= n;
  pipe.rest.append(buffer, (size_t)n);
  for (size_t end; (end = pipe.rest.find('\n')) != std::string::npos ||
                   (end = kMaxLineBytes) < pipe.rest.size();) {
    end = std::min(end, kMaxLineBytes);
    log(pipe, pipe.rest.substr(0, end));
    pipe.rest.erase(0, end + (pipe.rest[end] == '\n'));
  }
  return true;
}

}  // namespace busbar::spawner
