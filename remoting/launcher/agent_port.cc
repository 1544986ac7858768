#include "launcher/agent_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "control/log.h"

namespace busbar::launcher {

using control::Kind;

namespace {
constexpr int kTimeoutSeconds = 10;  // an agent that is stopped must not block the next one

bool reply_sessions(int fd, Grants& grants, Sessions& sessions, int data_port) {
  auto records = sessions.list();
  control::SessionList head{grants.generation(), (uint32_t)records.size(), (uint32_t)data_port,
                            sessions.isolation(), 0};
  std::vector<uint8_t> out(sizeof head + records.size() * sizeof records[0]);
  std::memcpy(out.data(), &head, sizeof head);
  if (!records.empty())
    std::memcpy(out.data() + sizeof head, records.data(), records.size() * sizeof records[0]);
  return control::send_message(fd, Kind::session_list, out.data(), (uint32_t)out.size());
}

void serve(int fd, std::vector<uint8_t>& body, Grants& grants, Sessions& sessions, int data_port) {
  control::Header h;
  while (control::receive_message(fd, h, body.data(), (uint32_t)body.size())) {
    bool sent = false;
    if (h.kind == (uint32_t)Kind::grants) {
      bool ok = grants.replace(body.data(), h.body_bytes);
      if (ok) {
        sessions.watch();
        std::thread([&sessions] { sessions.start_spares(); }).detach();
      }
      sent = control::send_message(fd, ok ? Kind::ok : Kind::refused, nullptr, 0);
    } else if (h.kind == (uint32_t)Kind::sessions) {
      sent = reply_sessions(fd, grants, sessions, data_port);
    } else if (h.kind == (uint32_t)Kind::kill_session) {
      control::KillSession request{};
      std::memcpy(&request, body.data(), std::min<size_t>(h.body_bytes, sizeof request));
      bool ok = h.body_bytes == sizeof request && sessions.kill_session(request);
      sent = control::send_message(fd, ok ? Kind::ok : Kind::refused, nullptr, 0);
    }
    if (!sent) return;
  }
}
// Without a cage, a session server that a client controls can connect, too.
bool is_agent(int fd, Sessions& sessions) {
  ucred peer{};
  return control::peer_of(fd, peer) && (peer.uid == geteuid() || peer.uid == 0) &&
         !sessions.contains(peer.pid);
}
}  // namespace

void serve_agent(int listener, Grants& grants, Sessions& sessions, int data_port) {
  std::vector<uint8_t> body(control::kMaxMessageBytes);
  for (;;) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    timeval timeout{kTimeoutSeconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (is_agent(fd, sessions))
      serve(fd, body, grants, sessions, data_port);
    else
      control::log_line("launcher", "connection refused", "agent socket", "its peer is no agent");
    close(fd);
  }
}

}  // namespace busbar::launcher
