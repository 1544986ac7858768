// The session server: one process for one client process. The launcher starts it with a socket as
// descriptor 3 and sends the start message when a client comes.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "control/messages.h"
#include "control/rendezvous.h"
#include "control/session_sockets.h"
#include "server/control_server.h"
#include "server/executor.h"
#include "server/kernel_output.h"
#include "server/nvml.h"
#include "server/sandbox.h"
#include "server/session_end.h"

namespace {

using namespace busbar;
using namespace busbar::server;
using control::SessionEnd;

constexpr int kStartFd = 3;
constexpr int kHandshakeMs = 15'000;

// Loading takes longest, so it happens before the session is known.
bool load_driver(Driver& cu, const std::string& path, std::string& error) {
  unsetenv("CUDA_VISIBLE_DEVICES");  // the grant selects the GPUs, by UUID
  if (!cu.load(path, error)) return false;
  if (CUresult r = cu.cuInit(0)) {
    error = "cuInit failed with error " + std::to_string((int)r);
    return false;
  }
  load_nvml(path);
  transport::preload_openssl();
  return true;
}

// Returns the index of the GPU on this node, or -1.
int find_gpu(Driver& cu, int count, const uint8_t* uuid, CUdevice& device) {
  for (int i = 0; i < count; ++i) {
    CUuuid found;
    if (cu.cuDeviceGet(&device, i) || cu.cuDeviceGetUuid(&found, device)) continue;
    if (!std::memcmp(found.bytes, uuid, sizeof found.bytes)) return i;
  }
  return -1;
}

// Lists the granted GPUs in the order of the grant.
bool find_devices(Driver& cu, const control::SessionStart& start, std::vector<DeviceState>& out,
                  std::string& error) {
  int count = 0;
  cu.cuDeviceGetCount(&count);
  for (uint32_t p = 0; p < start.partitions; ++p) {
    CUdevice device;
    if (find_gpu(cu, count, start.partition[p].gpu_uuid, device) < 0) {
      error = "a granted GPU is not on this node";
      return false;
    }
    out.push_back({device, p, {}});
  }
  return true;
}

uint32_t isolation_bits(const Isolation& i) {
  return (i.seccomp ? control::kSeccomp : 0u) | (i.no_new_privs ? control::kNoNewPrivs : 0u) |
         (i.resource_limits ? control::kResourceLimits : 0u);
}

// Sends the description of the devices to the launcher, which passes it to the client, and the
// measures with the descriptor of Isolation, which only the launcher keeps.
bool report_ready(bool shared, const std::string& description, const Isolation& isolation) {
  static control::SessionReady ready{};
  ready.shared = shared;
  ready.isolation = isolation_bits(isolation);
  ready.bytes = (uint32_t)description.size();
  if (description.size() > sizeof ready.description) return false;
  std::memcpy(ready.description, description.data(), description.size());
  return control::send_message(
      kStartFd, control::Kind::ok, &ready,
      (uint32_t)(offsetof(control::SessionReady, description) + description.size()),
      isolation.violations);
}

// Waits until the launcher has finished with the client's connection. Before that it sends the
// connections of the account and of the turns.
void wait_for_launcher(Account& account, Turns& turns) {
  control::Header h;
  int attached = -1;
  for (; control::receive_message(kStartFd, h, nullptr, 0, &attached); attached = -1)
    if (h.kind == (uint32_t)control::Kind::turns && attached >= 0)
      turns.connect(attached);
    else if (attached >= 0)
      account.connect(attached);
  close(kStartFd);
}

// In a cage with a user of its own it is the kernel's number for users of other namespaces, which
// other sessions have, too: the control socket lies in a folder that only their allocation has.
uid_t user_of_launcher() {
  ucred peer{};
  return control::peer_of(kStartFd, peer) ? peer.uid : geteuid();
}

// Returns the link to the client, over shared memory if `rendezvous` is a descriptor.
Link* connect_client(int client, int rendezvous, const transport::Secret& key, Account& account,
                     Turns& turns) {
  std::unique_ptr<transport::SharedMemory> shared;
  if (rendezvous >= 0 && !(shared = control::receive_shared_memory(rendezvous, key, kHandshakeMs)))
    end_process({SessionEnd::client_failed, "the client shared no memory"});
  wait_for_launcher(account, turns);
  if (shared) return new Link(client, std::move(shared));
  transport::Tls tls;
  std::string error;
  if (!transport::Tls::open_with_key(client, transport::Role::server, key, kHandshakeMs, tls,
                                     error))
    end_process({SessionEnd::client_failed, "handshake with the client failed: " + error});
  return new Link(std::move(tls));
}

std::vector<uint64_t> limits_of(const control::SessionStart& start) {
  std::vector<uint64_t> bytes;
  for (uint32_t p = 0; p < start.partitions; ++p) bytes.push_back(start.partition[p].memory_bytes);
  return bytes;
}

void identify(Session& session, const control::SessionStart& start, Turns& turns) {
  std::memcpy(session.id.data(), start.id, session.id.size());
  session.socket_folder = start.socket_folder;
  session.turns = &turns;
  session.sizes_changed = true;  // since they were described
}

[[noreturn]] void serve_session(Driver& cu, bool loaded, std::string error) {
  static control::SessionStart start;
  control::SessionSockets sockets;
  if (!control::receive_start(kStartFd, start, sockets))
    end_process({SessionEnd::start_failed, "no valid start message"});
  uid_t launcher = user_of_launcher();
  std::vector<DeviceState> devices;
  if (!loaded || !find_devices(cu, start, devices, error))
    end_process({SessionEnd::node_failed, error});
  Account account(limits_of(start));
  transport::Secret key;
  std::memcpy(key.data(), start.key, key.size());
  bool has_client_addresses = reserve_client_addresses(cu);
  std::string description = describe_devices(
      cu, account, devices, {std::begin(start.free_addresses), std::end(start.free_addresses)});
  Isolation isolation = enter_sandbox(cu.software ? DriverKind::software_gpu : DriverKind::nvidia);
  if (!report_ready(sockets.rendezvous >= 0, description, isolation))
    end_process({SessionEnd::start_failed, "the launcher is gone"});
  if (!limit_descriptors())
    end_process({SessionEnd::start_failed, "the descriptors cannot be limited"});
  if (isolation.violations >= 0) close(isolation.violations);

  static Turns turns(start.partitions);
  Link* link = connect_client(sockets.client, sockets.rendezvous, key, account, turns);
  end_with_client(*link);
  turns.set_wake([link] { link->wake(); });
  PinnedPool pinned(cu);
  BulkTransfers bulk(pinned, [link] { link->wake(); });
  Session session(cu, *link, pinned, bulk, account, devices, start.image_folder);
  session.has_client_addresses = has_client_addresses;
  KernelOutput output(*link);
  session.output = &output;
  identify(session, start, turns);
  Executor executor(session);
  start_control_server({sockets.requests, sockets.offers, session, executor, key, launcher});
  Ending ending = executor.run();
  account.send_last_names();
  end_process(ending);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::printf("busbar-session, protocol %u\n", wire::kProtocolVersion);
    return 0;
  }
  if (argc != 3 || std::strcmp(argv[1], "--driver"))
    end_process({SessionEnd::start_failed,
                 "usage: busbar-session --driver LIBRARY, with a socket as descriptor 3"});
  signal(SIGPIPE, SIG_IGN);
  Driver cu;
  std::string error;
  bool loaded = load_driver(cu, argv[2], error);
  serve_session(cu, loaded, error);
}
