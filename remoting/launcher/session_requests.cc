#include "launcher/session_requests.h"

#include <sys/socket.h>
#include <unistd.h>

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
}  // namespace

bool post_request(const SessionAddress& to, control::Kind kind, const void* body, uint32_t bytes,
                  int attached_fd) {
  int fd = connect_to_session(to);
  bool posted = fd >= 0 && post_on(fd, kind, body, bytes, attached_fd);
  if (fd >= 0) ::close(fd);
  return posted;
}

// A session server that is silent takes the time of the others, but their replies come meanwhile,
// and are read also after the deadline.
void read_statuses(std::vector<StatusQuery>& queries, int timeout_ms) {
  int64_t deadline_ms = transport::now_ms() + timeout_ms;
  std::vector<int> connections;
  for (auto& q : queries) {
    int fd = connections.emplace_back(connect_to_session(q.address));
    if (fd < 0) continue;
    post_on(fd, control::Kind::status, nullptr, 0, -1);
    shutdown(fd, SHUT_WR);  // a session server waits for the end before it serves others
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    control::Header h;
    auto& q = queries[i];
    int fd = connections[i];
    q.has_answered =
        fd >= 0 &&
        control::receive_message(fd, h, &q.status, sizeof q.status, nullptr, deadline_ms) &&
        h.kind == (uint32_t)control::Kind::ok && h.body_bytes == sizeof q.status;
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace busbar::launcher
