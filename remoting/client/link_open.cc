// Connection set-up of a link: ticket, launcher, session server.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/link.h"
#include "control/rendezvous.h"
#include "transport/opening_key.h"
#include "transport/tcp.h"

namespace busbar::client {

using transport::Tls;

namespace {
constexpr int kConnectMs = 5000, kHandshakeMs = 15'000, kOpenMs = 60'000;

// BUSBAR_TRANSPORT=tls disables shared memory.
bool shared_memory_enabled() {
  const char* transport = std::getenv("BUSBAR_TRANSPORT");
  return !transport || std::strcmp(transport, "tls");
}

void copy_program_name(char* to, size_t room) {
  FILE* f = std::fopen("/proc/self/comm", "r");
  if (!f) return;
  if (std::fgets(to, (int)room, f)) to[strcspn(to, "\n")] = 0;
  std::fclose(f);
}

// Sends the preamble and the ticket.
bool send_ticket(int fd, const std::string& ticket) {
  wire::Preamble p{{}, (uint32_t)wire::Purpose::open, (uint32_t)ticket.size()};
  std::memcpy(p.magic, wire::kMagic, sizeof p.magic);
  std::string message((const char*)&p, sizeof p);
  message += ticket;
  return ::send(fd, message.data(), message.size(), MSG_NOSIGNAL) == (ssize_t)message.size();
}
}  // namespace

bool Link::open(const NodeTicket& node, const transport::Secret& private_key,
                const std::vector<uint64_t>& free_addresses, std::string& description,
                std::string& error) {
  node_name_ = node.node_name;
  transport::Secret key;
  if (!transport::derive_opening_key(private_key, node.node_key, node.ticket.data(),
                                     node.ticket.size(), key)) {
    error = "a key in the ticket file is invalid; restart its `busbar run`";
    return false;
  }
  for (auto& e : node.endpoints) {
    std::string reason;
    if (open_endpoint(e, node.ticket, key, free_addresses, description, reason)) {
      start_threads();
      return true;
    }
    error += (error.empty() ? "" : "; ") + e.address + ":" + std::to_string(e.port) + ": " + reason;
  }
  if (node.endpoints.empty()) error = "the ticket file lists no endpoint of this node";
  return false;
}

bool Link::open_endpoint(const Endpoint& e, const std::string& ticket, const transport::Secret& key,
                         const std::vector<uint64_t>& free_addresses, std::string& description,
                         std::string& error) {
  int fd = transport::connect_tcp(e.address, e.port, kConnectMs, error);
  if (fd < 0) return false;
  Tls launcher;
  if (!send_ticket(fd, ticket)) {
    error = "connection lost";
    ::close(fd);
    return false;
  }
  if (!Tls::open_with_key(fd, transport::Role::client, key, kHandshakeMs, launcher, error,
                          transport::Reading::exact)) {
    error += " (a node sends no reply to a ticket that is expired, released or for another node)";
    return false;
  }
  if (!launcher.export_key(wire::kExporterLabel, session_key_)) {
    error = transport::openssl_error();
    return false;
  }
  endpoint_ = e;
  return open_session(launcher, free_addresses, description, error);
}

// Sends the request. Without the prospect of shared memory, the ClientHello for the session server
// follows at once, which saves a round trip.
bool Link::open_session(Tls& launcher, const std::vector<uint64_t>& free_addresses,
                        std::string& description, std::string& error) {
  wire::OpenRequest request{wire::kProtocolVersion, (uint32_t)getpid(), {}, {}, {}};
  copy_program_name(request.program, sizeof request.program);
  std::copy_n(free_addresses.begin(), std::min<size_t>(free_addresses.size(), wire::kArenaSlots),
              request.free_addresses);
  control::RendezvousName name{};
  int rendezvous = shared_memory_enabled() && transport::is_local_connection(launcher.fd())
                       ? control::listen_for_session_server(name)
                       : -1;
  std::memcpy(request.rendezvous, name.data(), name.size());
  bool opened = launcher.write_all(&request, sizeof request, kOpenMs);
  Tls session = Tls::prepare_with_key(launcher.fd(), transport::Role::client, session_key_);
  int file = -1;
  wire::OpenReply reply;
  opened = opened && (rendezvous >= 0 || session.send_client_hello());
  // Allocated while the node starts the session server.
  if (rendezvous >= 0)
    shared_ = transport::SharedMemory::create(file);
  else
    ring_ = std::make_unique<transport::Ring>();
  opened = opened && read_reply(launcher, reply, description, error);
  bool shared = opened && reply.shared && shared_ &&
                control::send_shared_memory(rendezvous, session_key_, file);
  if (!shared) shared_ = nullptr;
  if (rendezvous >= 0) ::close(rendezvous);
  if (file >= 0) ::close(file);
  if (!opened || (reply.shared && !shared)) {
    session.release_fd();
    if (error.empty()) error = "the launcher did not open a session";
    return false;
  }
  std::memcpy(session_id_, reply.session, sizeof session_id_);
  return start_carrier(launcher, std::move(session), rendezvous >= 0, error);
}

// Replaces the TLS connection to the launcher by shared memory or by TLS to the session server.
bool Link::start_carrier(Tls& launcher, Tls session, bool offered_shared_memory,
                         std::string& error) {
  // Round trips so far: TCP; TLS of the launcher; its reply with the devices, which includes the
  // session server's part of the next step.
  waits_ += 3;
  socket_ = launcher.release_fd();
  if (shared_) {
    records_ = &shared_->records();
    session.release_fd();
    return true;
  }
  if (offered_shared_memory) waits_ += 1;
  if (!ring_) ring_ = std::make_unique<transport::Ring>();
  records_ = ring_.get();
  tls_ = std::move(session);
  transport::reset_at_end(tls_.fd(), true);
  return tls_.finish_with_key(kHandshakeMs, error);
}

bool Link::read_reply(Tls& launcher, wire::OpenReply& reply, std::string& description,
                      std::string& error) {
  if (!launcher.read_all(&reply, sizeof reply, kOpenMs)) return false;
  reply.message[sizeof reply.message - 1] = 0;
  if (reply.status) {
    error = reply.message;
    return false;
  }
  if (reply.description_bytes > wire::kMaxDescriptionBytes) return false;
  description.resize(reply.description_bytes);
  return launcher.read_all(description.data(), description.size(), kOpenMs);
}

}  // namespace busbar::client
