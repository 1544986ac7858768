#include "control/session_sockets.h"

#include <sys/socket.h>

namespace busbar::control {

namespace {
constexpr int kBacklog = 64;

bool receive_socket(int fd, Kind kind, int& socket) {
  Header h;
  return receive_message(fd, h, nullptr, 0, &socket) && h.kind == (uint32_t)kind && socket >= 0;
}
}  // namespace

bool send_start(int fd, SessionStart& start, const SessionSockets& sockets, int64_t deadline_ms) {
  start.rendezvous = sockets.rendezvous >= 0;
  auto pass = [&](Kind kind, int socket) {
    return send_message(fd, kind, nullptr, 0, socket, deadline_ms);
  };
  return send_message(fd, Kind::start, &start, sizeof start, sockets.client, deadline_ms) &&
         pass(kBoundSocket, sockets.requests) && pass(kBoundSocket, sockets.offers) &&
         (!start.rendezvous || pass(Kind::rendezvous, sockets.rendezvous));
}

bool receive_start(int fd, SessionStart& start, SessionSockets& sockets) {
  Header h;
  return receive_message(fd, h, &start, sizeof start, &sockets.client) &&
         h.kind == (uint32_t)Kind::start && sockets.client >= 0 &&
         start.partitions <= wire::kMaxDevices &&
         receive_socket(fd, kBoundSocket, sockets.requests) &&
         receive_socket(fd, kBoundSocket, sockets.offers) &&
         (!start.rendezvous || receive_socket(fd, Kind::rendezvous, sockets.rendezvous)) &&
         listen(sockets.requests, kBacklog) == 0;
}

}  // namespace busbar::control
