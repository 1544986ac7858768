#include <openssl/rand.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "control/hex.h"
#include "control/log.h"
#include "control/offers.h"
#include "control/rendezvous.h"
#include "control/spawn_messages.h"
#include "launcher/own_layers.h"
#include "launcher/pidfd.h"
#include "launcher/session_start.h"
#include "launcher/sessions.h"
#include "transport/cleanse.h"
#include "transport/clock.h"
#include "transport/session_keys.h"

namespace busbar::launcher {

using control::SessionState;

namespace {
constexpr int kReplyMs = 5000;
// Loading a driver and creating its first context takes seconds on some GPUs.
constexpr int kStartMs = 30'000;

enum Status : uint32_t { kOpened = 0, kNoResources = 1, kNotStarted = 2 };

void copy_text(char* to, size_t room, const std::string& from) {
  std::snprintf(to, room, "%s", from.c_str());
}

bool refuse(transport::Tls& tls, Status status, const char* reason, int timeout_ms = kReplyMs) {
  wire::OpenReply reply{};
  reply.status = status;
  copy_text(reply.message, sizeof reply.message, reason);
  return tls.write_all(&reply, sizeof reply, timeout_ms);
}

// Connects to a client on this machine, or returns -1: the session server is in another network
// namespace than the client.
int connect_rendezvous(const wire::OpenRequest& request, const transport::Secret& key) {
  control::RendezvousName name;
  std::memcpy(name.data(), request.rendezvous, name.size());
  return control::connect_to_client(name, key);
}

void accept(transport::Tls& tls, const uint8_t* session, const control::SessionReady& ready) {
  wire::OpenReply reply{};
  std::memcpy(reply.session, session, sizeof reply.session);
  reply.shared = ready.shared;
  reply.description_bytes = ready.bytes;
  if (tls.write_all(&reply, sizeof reply, kReplyMs))
    tls.write_all(ready.description, ready.bytes, kReplyMs);
}

Session new_session(const control::SessionStart& start, const transport::Secret& key,
                    const Ticket& ticket, pid_t pid, const wire::OpenRequest& request,
                    const std::string& client_address) {
  Session s;
  std::memcpy(s.record.id, start.id, sizeof s.record.id);
  std::memcpy(s.record.allocation, ticket.body.allocation, sizeof s.record.allocation);
  s.record.pid = (uint32_t)pid;
  s.record.state = (uint32_t)SessionState::opening;
  s.record.opened_seconds = (uint64_t)time(nullptr);
  s.record.client_pid = request.pid;
  std::memcpy(s.record.program, request.program, sizeof s.record.program);
  s.record.program[sizeof s.record.program - 1] = 0;
  copy_text(s.record.client_address, sizeof s.record.client_address, client_address);
  s.start_time = process_start_time(pid);
  s.fence_epoch = ticket.body.fence_epoch;
  s.fence_counter = ticket.body.fence_counter;
  s.pidfd = open_pidfd(pid);
  s.attach_key = transport::derive_key(key, transport::kAttachPurpose);
  return s;
}
}  // namespace

// Without id and key.
control::SessionStart Sessions::start_message(const control::Allocation& grant,
                                              const wire::OpenRequest& request, bool caged) const {
  control::SessionStart start{};
  start.partitions = grant.partitions;
  start.compute_mode = grant.compute_mode;
  std::memcpy(start.partition, grant.partition, sizeof start.partition);
  for (uint32_t p = 0; p < start.partitions; ++p)
    start.partition[p].memory_bytes = offered_bytes(grant, p);
  std::string images = settings_.images() + "/" + control::hex(grant.tenant, 16);
  std::string sockets = settings_.runtime + "/sessions/" + control::hex(grant.id, 16);
  start.client_pid = request.pid;
  std::memcpy(start.free_addresses, request.free_addresses, sizeof start.free_addresses);
  copy_text(start.image_folder, sizeof start.image_folder, caged ? control::kCageImages : images);
  copy_text(start.socket_folder, sizeof start.socket_folder,
            caged ? control::kCageSockets : sockets);
  copy_text(start.driver, sizeof start.driver, settings_.driver);
  return start;
}

void Sessions::add(const Session& s) {
  MutexLock lock(mutex_);
  sessions_[control::hex(s.record.id, 16)] = s;
  save(s);
}

// The session server has begun: sends it its connections. Takes over `violations`.
void Sessions::set_running(const std::string& id, uint32_t isolation, int violations, int server) {
  std::vector<NewConnection> made;
  {
    MutexLock lock(mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end() || it->second.record.state != (uint32_t)SessionState::opening) {
      if (violations >= 0) ::close(violations);
      return;
    }
    it->second.violations = violations;
    it->second.record.state = (uint32_t)SessionState::running;
    it->second.record.isolation |= isolation;
    save(it->second);
    connect_missing(it->second, made);
  }
  for (auto& c : made) {
    control::send_message(server, c.kind, nullptr, 0, c.socket, 0);
    ::close(c.socket);
  }
}

// Refuses a client whose session server has not begun. The server ends without its start socket.
void Sessions::turn_away(transport::Tls& tls, const char* reason) {
  refuse(tls, kNoResources, reason, 0);
}

void Sessions::give_up(transport::Tls& tls, const SessionProcess& process, const char* reason) {
  refuse(tls, kNoResources, reason);
  process.close();
}

// Creates the sockets of a session in the folder that all cages of its allocation have. A session
// server that could do it would fill the file system, or take the names of other sessions.
control::SessionSockets Sessions::bind_sockets(const control::SessionRecord& record, int client,
                                               int rendezvous) const {
  std::string requests = socket_path(record, control::kControlSocket);
  std::string offers = socket_path(record, control::kOffersSocket);
  return {client, control::bind_at(requests.c_str(), SOCK_STREAM),
          control::receive_offers_at(offers.c_str()), rendezvous};
}

// Takes over the sockets but the client's. `violations` gets a descriptor, or -1.
std::unique_ptr<control::SessionReady> Sessions::start_server(int server,
                                                              control::SessionStart& start,
                                                              control::SessionSockets sockets,
                                                              int& violations) {
  std::unique_ptr<control::SessionReady> ready;
  if (sockets.requests < 0 || sockets.offers < 0)
    control::log_line("launcher", "session not started", control::hex(start.id, 16),
                      "its sockets cannot be created");
  else
    ready = start_session(server, start, sockets, violations, transport::now_ms() + kStartMs);
  for (int fd : {sockets.requests, sockets.offers, sockets.rendezvous})
    if (fd >= 0) ::close(fd);
  return ready;
}

static constexpr char kCannotStart[] =
    "the node cannot start a session server; see the spawner's log";

static void log_opened(const control::SessionStart& start, pid_t pid,
                       const control::Allocation& grant) {
  control::log_line("launcher", "session opened", control::hex(start.id, 16),
                    "pid " + std::to_string(pid) + ", allocation " + control::hex(grant.id, 16));
}

void Sessions::open(transport::Tls tls, const Ticket& ticket, const control::Allocation& grant,
                    const wire::OpenRequest& request, const std::string& client_address) {
  if (std::string lack = lack_of_memory(grant); !lack.empty()) {
    refuse(tls, kNoResources, lack.c_str());
    return;
  }
  SessionProcess process = processes_.take(grant);
  if (process.fd < 0)
    return give_up(tls, process, process.refusal ? process.refusal : kCannotStart);
  if (grant.required_isolation & ~(process.cage | own_layers()))
    return give_up(tls, process, "the node isolates sessions less than the pool requires");
  control::SessionStart start = start_message(grant, request, process.cage & control::kFileSystem);
  transport::Secret key;
  transport::Cleanse cleanse_start(start);
  transport::Cleanse cleanse_key(key);
  if (RAND_bytes(start.id, sizeof start.id) != 1 || !tls.export_key(wire::kExporterLabel, key))
    return give_up(tls, process, "no session key could be created");
  std::memcpy(start.key, key.data(), key.size());
  Session session = new_session(start, key, ticket, process.pid, request, client_address);
  session.record.isolation = process.cage;  // until the session server reports its own measures
  session.exit_pipe = process.exit_pipe;
  add(session);
  int violations = -1;
  control::SessionSockets sockets =
      bind_sockets(session.record, tls.fd(), connect_rendezvous(request, key));
  auto ready = start_server(process.fd, start, sockets, violations);
  if (!ready) {
    if (violations >= 0) ::close(violations);
    ::close(process.fd);
    refuse(tls, kNotStarted,
           "the session server could not start; see the launcher's log on the node");
    kill(session);
    return;
  }
  set_running(control::hex(start.id, 16), ready->isolation, violations, process.fd);
  log_opened(start, process.pid, grant);
  accept(tls, start.id, *ready);
  ::close(process.fd);        // the session server takes over the connection
  ::close(tls.release_fd());  // and holds a descriptor of its own
  start_spares();
}

}  // namespace busbar::launcher
