// The session server: one process for one client process. Started by the launcher with a socket as
// descriptor 3.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>

#include "control/messages.h"
#include "server/executor.h"
#include "server/nvml.h"
#include "server/output.h"
#include "server/sandbox.h"

namespace {

using namespace busbar;
using namespace busbar::server;

constexpr int kStartFd = 3;
constexpr int kHandshakeMs = 15'000;

[[noreturn]] void leave(const std::string& why, int code) {
  std::fprintf(stderr, "session server %d: %s\n", (int)getpid(), why.c_str());
  std::_Exit(code);  // threads still wait on the driver; the kernel frees what this process held
}

// What takes longest, before the session is known: this process may wait for one.
bool load_driver(Driver& cu, const std::string& path, std::string& error) {
  if (!cu.load(path, error)) return false;
  if (CUresult r = cu.cuInit(0)) {
    error = "cuInit answered " + std::to_string((int)r);
    return false;
  }
  load_nvml(path);
  transport::warm_up();
  return true;
}

// The granted GPUs, in the order of the grant.
bool find_devices(Driver& cu, const control::SessionStart& start, std::vector<DeviceState>& out,
                  std::string& error) {
  int count = 0;
  cu.cuDeviceGetCount(&count);
  for (uint32_t p = 0; p < start.partitions; ++p) {
    bool found = false;
    for (int i = 0; i < count && !found; ++i) {
      CUdevice d;
      CUuuid uuid;
      if (cu.cuDeviceGet(&d, i) || cu.cuDeviceGetUuid(&uuid, d)) continue;
      found = !std::memcmp(uuid.bytes, start.partition[p].gpu_uuid, 16);
      if (found) out.push_back({d, p, {}});
    }
    if (!found) {
      error = "a granted GPU is not on this node";
      return false;
    }
  }
  return true;
}

// What the launcher passes on to the client.
bool report_ready(bool shared, const std::string& description) {
  static control::SessionReady ready{};
  ready.shared = shared;
  ready.bytes = (uint32_t)description.size();
  if (description.size() > sizeof ready.description) return false;
  std::memcpy(ready.description, description.data(), description.size());
  return control::send_message(
      kStartFd, control::Kind::ok, &ready,
      (uint32_t)(offsetof(control::SessionReady, description) + description.size()));
}

uint32_t isolation_bits(const Isolation& i) {
  return (i.seccomp ? 1u : 0u) | (i.no_new_privs ? 2u : 0u) | (i.resource_limits ? 4u : 0u);
}

// Answers the launcher, this one or the next: status, bulk connections, the order to end.
void serve_control(int listener, Session& s, Executor& executor, transport::Secret key,
                   uint32_t isolation) {
  std::thread([=, &s, &executor] {
    for (;;) {
      int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      control::Header h;
      control::EndReason reason{};
      int attached = -1;
      while (control::receive_message(fd, h, &reason, sizeof reason, &attached)) {
        if (h.kind == (uint32_t)control::Kind::status) {
          control::SessionStatus status{
              s.link.bytes_in(), s.link.bytes_out(), s.launches, 0, isolation, 1, {}};
          for (auto& d : s.devices)
            status.memory_bytes += status.partition_bytes[d.partition] =
                s.ledger.leased_here(d.partition);
          if (!control::send_message(fd, control::Kind::ok, &status, sizeof status)) break;
        } else if (h.kind == (uint32_t)control::Kind::attach && attached >= 0) {
          std::thread([&s, &executor, attached, key] {
            transport::Tls tls;
            std::string error;
            if (transport::Tls::with_key(attached, transport::Role::server, key, kHandshakeMs, tls,
                                         error))
              s.staging.receive(std::move(tls));
            executor.nudge();
          }).detach();
        } else if (h.kind == (uint32_t)control::Kind::share && h.bytes == sizeof(wire::IpcToken)) {
          wire::IpcToken token;
          std::memcpy(&token, &reason, sizeof token);
          ucred peer{};
          socklen_t n = sizeof peer;
          int memory = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n)
                           ? -1
                           : shared_memory_of(s, token, peer.pid);
          control::send_message(fd, memory < 0 ? control::Kind::refused : control::Kind::ok,
                                nullptr, 0, memory);
          if (memory >= 0) close(memory);
        } else if (h.kind == (uint32_t)control::Kind::end) {
          reason.text[sizeof reason.text - 1] = 0;
          struct {
            uint32_t error;
            char text[104];
          } body{CUDA_ERROR_DEVICE_UNAVAILABLE, {}};
          std::memcpy(body.text, reason.text, sizeof body.text);
          s.link.send(wire::Frame::session_error, &body, sizeof body);
          leave(std::string("ended: ") + reason.text, 0);
        }
      }
      close(fd);
    }
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::printf("busbar-session, protocol %u\n", wire::kProtocolVersion);
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  Driver cu;
  std::string error;
  if (argc != 3 || std::strcmp(argv[1], "--driver"))
    leave("usage: busbar-session --driver LIBRARY, with a socket as descriptor 3", 2);
  bool loaded = load_driver(cu, argv[2], error);
  control::Header h;
  auto* start = new control::SessionStart;
  int client = -1;
  if (!control::receive_message(kStartFd, h, start, sizeof *start, &client) ||
      h.kind != (uint32_t)control::Kind::start || client < 0 ||
      start->partitions > wire::kMaxDevices)
    leave("no start message", 2);
  int listener = control::listen_at(start->socket_path);
  if (listener < 0) leave("the control socket cannot be made", 2);
  std::vector<DeviceState> devices;
  if (!loaded || !find_devices(cu, *start, devices, error)) leave(error, 3);
  Ledger* ledger = Ledger::join(start->ledger_path, start->client_pid);
  if (!ledger) leave("the ledger cannot be opened", 3);
  transport::Secret key;
  transport::MeetingName name;
  std::memcpy(key.data(), start->key, key.size());
  std::memcpy(name.data(), start->meeting, name.size());
  int meeting = transport::meet_client(name, key);
  std::string description = describe_devices(
      cu, *ledger, devices, {std::begin(start->free_addresses), std::end(start->free_addresses)});
  Isolation isolation = enter_sandbox();
  if (!report_ready(meeting >= 0, description)) leave("the launcher is gone", 2);
  transport::Tls tls;
  std::unique_ptr<transport::SharedMemory> shared;
  if (meeting >= 0 && !(shared = transport::take_memory(meeting, key, kHandshakeMs)))
    leave("the client shared no memory", 4);
  control::receive_message(kStartFd, h, nullptr,
                           0);  // ends when the launcher has said its last word on the connection
  close(kStartFd);
  if (!shared &&
      !transport::Tls::with_key(client, transport::Role::server, key, kHandshakeMs, tls, error))
    leave("handshake with the client: " + error, 4);
  auto* link = shared ? new Link(client, std::move(shared)) : new Link(std::move(tls));
  auto* staging = new Staging(cu, [link] { link->wake(); });
  auto* session = new Session(cu, *link, *staging, *ledger, devices, start->image_folder);
  std::memcpy(session->id.data(), start->id, session->id.size());
  session->socket_folder =
      std::string(start->socket_path).substr(0, std::string(start->socket_path).rfind('/'));
  session->output = new Output(*link);
  auto* executor = new Executor(*session);
  serve_control(listener, *session, *executor, key, isolation_bits(isolation));
  std::string why = executor->run();
  unlink(start->socket_path);
  leave(why.empty() ? "done" : why, 0);
}
