// The spawner: starts session servers in cages for the launcher. It has no network port, reads only
// requests of fixed size from the launcher's user, and is the only part of a node that needs the
// right to make namespaces.
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "control/descriptor_limit.h"
#include "control/failpoints.h"
#include "control/log.h"
#include "control/messages.h"
#include "spawner/children.h"
#include "spawner/driver_path.h"
#include "spawner/oom_score.h"
#include "spawner/privileges.h"
#include "spawner/requests.h"
#include "spawner/sessions.h"
#include "transport/clock.h"

namespace {

using namespace busbar;
using namespace busbar::spawner;

constexpr int kRequestMs = 2000;  // a launcher that is stopped must not block the next one

constexpr char kUsage[] =
    "usage: busbar-spawner --runtime DIR --session-program PATH --driver LIBRARY [--cache DIR]\n";

bool parse(int argc, char** argv, Settings& s) {
  static const option options[] = {{"runtime", 1, nullptr, 'r'},
                                   {"session-program", 1, nullptr, 's'},
                                   {"driver", 1, nullptr, 'd'},
                                   {"cache", 1, nullptr, 'i'},
                                   {}};
  for (int o; (o = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (o) {
      case 'r': s.runtime = optarg; break;
      case 's': s.session_program = optarg; break;
      case 'd': s.driver = optarg; break;
      case 'i': s.cache = optarg; break;
      default: return false;
    }
  return !s.runtime.empty() && !s.session_program.empty() && !s.driver.empty();
}

std::vector<GpuUuid> gpus_of(const control::SpawnRequest& request) {
  std::vector<GpuUuid> gpus(std::min(request.gpus, wire::kMaxDevices));
  for (size_t i = 0; i < gpus.size(); ++i)
    std::copy_n(request.gpu_uuid[i], gpus[i].size(), gpus[i].begin());
  return gpus;
}

void serve(int fd, Sessions& sessions) {
  Request request;
  control::SpawnReply reply{};
  control::set_timeouts(fd, kRequestMs);
  if (receive_request(fd, request)) {
    if (request.fields.op == (uint32_t)control::SpawnOp::start && request.attached[1] >= 0) {
      reply = sessions.start(request.attached[0], request.attached[1], gpus_of(request.fields));
      request.attached[1] = -1;
    } else if (request.fields.op == (uint32_t)control::SpawnOp::open) {
      reply = sessions.open(request.fields);
    }
  }
  for (int a : request.attached)
    if (a >= 0) close(a);
  (void)!send(fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The runtime folder belongs to the launcher's user.
bool is_launcher(int fd, const Settings& settings) {
  struct stat st;
  ucred peer{};
  return stat(settings.runtime.c_str(), &st) == 0 && control::peer_of(fd, peer) &&
         peer.uid == st.st_uid;
}

int block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, s);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

// Returns when the spawner must end. Sessions continue without it.
void run(int listener, int signals, const Settings& settings, Sessions& sessions) {
  CacheTrimmer trimmer(sessions.caches(), settings.runtime);
  for (;;) {
    std::vector<pollfd> waits = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
    sessions.output().append_to(waits);
    trimmer.work(sessions.any(), transport::now_ms());
    if (poll(waits.data(), waits.size(), kTrimMs) < 0) continue;
    sessions.output().read(waits);
    if (waits[1].revents) {
      signalfd_siginfo info;
      (void)!read(signals, &info, sizeof info);
      if (info.ssi_signo != SIGCHLD) return;
      collect_children(trimmer, sessions);
    }
    int fd = waits[0].revents ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    if (fd < 0) continue;
    if (is_launcher(fd, settings)) serve(fd, sessions);
    close(fd);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::printf("busbar-spawner, protocol %u\n", wire::kProtocolVersion);
    return 0;
  }
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  settings.driver = find_library(settings.driver);
  signal(SIGPIPE, SIG_IGN);
  control::raise_descriptor_limit();
  int signals = block_signals();
  // Failpoint: a test shows that a node without cages says so.
  bool can_cage = !control::failpoint("NO_CAGES") && gain_namespace_rights();
  std::string path = settings.runtime + control::kSpawnerSocket;
  int listener = control::listen_at(path.c_str());
  if (listener < 0) {
    control::log_line("spawner", "cannot listen", path, "exiting");
    return 1;
  }
  Sessions sessions(settings, can_cage);
  control::log_line("spawner", "listening", path,
                    !can_cage                    ? "WITHOUT cages"
                    : sessions.separates_users() ? "with cages that have users of their own"
                                                 : "with cages of one user");
  control::log_line("spawner", "limits of all sessions together", sessions.common_limits(),
                    "this process has oom_score_adj " + std::to_string(own_oom_score()));
  run(listener, signals, settings, sessions);
}
