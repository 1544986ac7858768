#include "launcher/session_requests.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/status_reply.h"
#include "transport/clock.h"

namespace busbar::launcher {

namespace {
// Returns a connection to the process of the address, or -1. Does not block.
int connect_to_session(const SessionAddress& to) {
  int fd = control::connect_to(to.path.c_str());
  ucred peer{};
  if (fd < 0 || (control::peer_of(fd, peer) && peer.pid == to.pid)) return fd;
  ::close(fd);
  return -1;
}

// The socket buffer of a new connection has room for every request, so a deadline in the past does
// not make the request fail.
bool post_on(int fd, control::Kind kind, const void* body, uint32_t bytes, int attached_fd) {
  return control::send_message(fd, kind, body, bytes, attached_fd, 0);
}

void close_entry(pollfd& entry) {
  if (entry.fd >= 0) ::close(entry.fd);
  entry.fd = -1;  // poll() ignores it
}
}  // namespace

bool post_request(const SessionAddress& to, control::Kind kind, const void* body, uint32_t bytes,
                  int attached_fd) {
  int fd = connect_to_session(to);
  bool posted = fd >= 0 && post_on(fd, kind, body, bytes, attached_fd);
  if (fd >= 0) ::close(fd);
  return posted;
}

void read_statuses(std::vector<StatusQuery>& queries, int timeout_ms) {
  int64_t deadline_ms = transport::now_ms() + timeout_ms;
  std::vector<pollfd> entries;
  std::vector<StatusReply> replies(queries.size());
  size_t open = 0;
  for (auto& q : queries) {
    pollfd entry{connect_to_session(q.address), POLLIN, 0};
    if (entry.fd >= 0 && !post_on(entry.fd, control::Kind::status, nullptr, 0, -1))
      close_entry(entry);
    open += entry.fd >= 0;
    entries.push_back(entry);
  }
  for (int64_t left_ms; open && (left_ms = deadline_ms - transport::now_ms()) > 0;)
    if (poll(entries.data(), entries.size(), (int)left_ms) > 0)
      open -= read_replies(entries, replies);
  for (size_t i = 0; i < queries.size(); ++i) {
    close_entry(entries[i]);
    queries[i].has_answered = replies[i].valid();
    queries[i].status = replies[i].status();
  }
}

}  // namespace busbar::launcher
