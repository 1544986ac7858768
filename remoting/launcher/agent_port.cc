#include "launcher/agent_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "checked_size.h"
#include "control/log.h"

namespace busbar::launcher {

using control::Kind;

namespace {
constexpr int kTimeoutMs = 10'000;  // an agent that is stopped must not block the next one

// Sends a head and a list of records.
template <typename Head, typename Record>
bool reply_list(int fd, Kind kind, const Head& head, const std::vector<Record>& records) {
  size_t bytes = (CheckedSize(records.size()) * sizeof(Record)).value();
  std::vector<uint8_t> out(sizeof head + bytes);
  std::memcpy(out.data(), &head, sizeof head);
  if (bytes) std::memcpy(out.data() + sizeof head, records.data(), bytes);
  return control::send_message(fd, kind, out.data(), (uint32_t)out.size());
}

bool reply_sessions(int fd, Grants& grants, Sessions& sessions, int data_port) {
  auto records = sessions.list();
  control::SessionList head{grants.generation(), (uint32_t)records.size(), (uint32_t)data_port,
                            sessions.isolation(), 0};
  return reply_list(fd, Kind::session_list, head, records);
}

// The generation is read first: the holdings are under its limits, or under later ones.
bool reply_over(int fd, Grants& grants) {
  control::OverList head{grants.generation(), 0, 0};
  auto holdings = grants.over();
  head.count = (uint32_t)holdings.size();
  return reply_list(fd, Kind::over_list, head, holdings);
}

bool reply_shares(int fd, Arbiters& arbiters) {
  auto shares = arbiters.shares();
  return reply_list(fd, Kind::share_list, control::ShareList{(uint32_t)shares.size(), 0}, shares);
}

bool apply_grants(const std::vector<uint8_t>& body, uint32_t bytes, Grants& grants,
                  Sessions& sessions) {
  bool ok = grants.replace(body.data(), bytes);
  sessions.announce_limits(grants.take_resized());
  if (!ok) return false;
  sessions.watch();
  std::thread([&sessions] { sessions.start_spares(); }).detach();
  return true;
}

bool reply_suspensions(int fd, Sessions& sessions) {
  control::SuspensionList head{};
  auto records = sessions.suspensions(head);
  return reply_list(fd, Kind::suspension_list, head, records);
}

// A decision on one session: refused with the reason unless that is empty.
bool reply_decision(int fd, const std::string& reason) {
  control::EndReason text{};
  std::snprintf(text.text, sizeof text.text, "%s", reason.c_str());
  return reason.empty() ? control::send_message(fd, Kind::ok, nullptr, 0)
                        : control::send_message(fd, Kind::refused, &text, sizeof text);
}

bool serve_suspension(int fd, const control::Header& h, const uint8_t* body, Sessions& sessions) {
  control::SuspendSession request{};
  if (h.kind == (uint32_t)Kind::suspensions) return reply_suspensions(fd, sessions);
  bool suspends = h.kind == (uint32_t)Kind::suspend;
  if (h.body_bytes != (suspends ? sizeof request : sizeof request.id))
    return reply_decision(fd, "the request has a wrong length");
  std::memcpy(&request, body, h.body_bytes);
  return reply_decision(fd, suspends ? sessions.suspend(request) : sessions.resume(request.id));
}

bool is_suspension(uint32_t kind) {
  return kind == (uint32_t)Kind::suspend || kind == (uint32_t)Kind::resume ||
         kind == (uint32_t)Kind::suspensions;
}

void serve(int fd, std::vector<uint8_t>& body, Grants& grants, Sessions& sessions,
           Arbiters& arbiters, int data_port) {
  control::Header h;
  while (control::receive_message(fd, h, body.data(), (uint32_t)body.size())) {
    bool sent = false;
    if (h.kind == (uint32_t)Kind::grants) {
      bool ok = apply_grants(body, h.body_bytes, grants, sessions);
      sent = control::send_message(fd, ok ? Kind::ok : Kind::refused, nullptr, 0);
    } else if (h.kind == (uint32_t)Kind::sessions) {
      sent = reply_sessions(fd, grants, sessions, data_port);
    } else if (h.kind == (uint32_t)Kind::over) {
      sent = reply_over(fd, grants);
    } else if (h.kind == (uint32_t)Kind::shares) {
      sent = reply_shares(fd, arbiters);
    } else if (h.kind == (uint32_t)Kind::kill_session) {
      control::KillSession request{};
      std::memcpy(&request, body.data(), std::min<size_t>(h.body_bytes, sizeof request));
      bool ok = h.body_bytes == sizeof request && sessions.kill_session(request);
      sent = control::send_message(fd, ok ? Kind::ok : Kind::refused, nullptr, 0);
    }
    if (is_suspension(h.kind)) sent = serve_suspension(fd, h, body.data(), sessions);
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

void serve_agent(int listener, Grants& grants, Sessions& sessions, Arbiters& arbiters,
                 int data_port) {
  std::vector<uint8_t> body(control::kMaxMessageBytes);
  for (;;) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    control::set_timeouts(fd, kTimeoutMs);
    if (is_agent(fd, sessions))
      serve(fd, body, grants, sessions, arbiters, data_port);
    else
      control::log_line("launcher", "connection refused", "agent socket", "its peer is no agent");
    close(fd);
  }
}

}  // namespace busbar::launcher
