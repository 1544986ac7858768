#include "control/rendezvous.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "control/messages.h"
#include "transport/session_keys.h"

namespace busbar::control {

using transport::derive_key;
using transport::equal;
using transport::Secret;
using transport::SharedMemory;

namespace {
constexpr int kAcceptTimeoutMs = 200;
constexpr int kMaxConnections = 8;  // any process of the machine can connect to an abstract socket

constexpr char kServerRole[] = "busbar shared memory: node";
constexpr char kClientRole[] = "busbar shared memory: client";

// Fills in the socket's address and returns its length.
socklen_t make_address(const RendezvousName& name, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  int n = std::snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "busbar-client-");
  for (uint8_t byte : name)
    n += std::snprintf(a.sun_path + 1 + n, sizeof a.sun_path - 1 - (size_t)n, "%02x", byte);
  return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}
}  // namespace

int listen_for_session_server(RendezvousName& name) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un a;
  if (fd >= 0 && RAND_bytes(name.data(), (int)name.size()) == 1 &&
      bind(fd, (sockaddr*)&a, make_address(name, a)) == 0 && listen(fd, kMaxConnections) == 0)
    return fd;
  if (fd >= 0) close(fd);
  name = {};
  return -1;
}

int connect_to_client(const RendezvousName& name, const Secret& key) {
  if (name == RendezvousName{}) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un a;
  Secret proof = derive_key(key, kServerRole);
  if (fd >= 0 && connect(fd, (sockaddr*)&a, make_address(name, a)) == 0 &&
      send(fd, proof.data(), proof.size(), MSG_NOSIGNAL) == (ssize_t)proof.size()) {
    fcntl(fd, F_SETFL, 0);
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

bool send_shared_memory(int listener, const Secret& key, int memory) {
  for (int i = 0; i < kMaxConnections; ++i) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) break;  // the server connects before the launcher replies
    set_timeouts(fd, kAcceptTimeoutMs);
    Secret given{}, proof = derive_key(key, kClientRole);
    bool sent = recv(fd, given.data(), given.size(), MSG_WAITALL) == (ssize_t)given.size() &&
                equal(given, derive_key(key, kServerRole)) &&
                send_message(fd, Kind::attach, proof.data(), (uint32_t)proof.size(), memory);
    close(fd);
    if (sent) return true;
  }
  return false;
}

std::unique_ptr<SharedMemory> receive_shared_memory(int rendezvous, const Secret& key,
                                                    int timeout_ms) {
  set_timeouts(rendezvous, timeout_ms);
  Header h;
  Secret given{};
  int memory = -1;
  std::unique_ptr<SharedMemory> m;
  if (receive_message(rendezvous, h, given.data(), given.size(), &memory) &&
      h.body_bytes == given.size() && memory >= 0 && equal(given, derive_key(key, kClientRole)))
    m = SharedMemory::attach(memory);
  if (memory >= 0) close(memory);
  close(rendezvous);
  return m;
}

}  // namespace busbar::control
