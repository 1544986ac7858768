// The launcher: owns the data port of the node, checks tickets and starts session servers. It runs
// independently of the agent.
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "checked_size.h"
#include "control/descriptor_limit.h"
#include "control/failpoints.h"
#include "control/log.h"
#include "control/session_ends.h"
#include "launcher/agent_port.h"
#include "launcher/client_port.h"

namespace {

using namespace busbar;
using namespace busbar::launcher;

constexpr int kWatchMs = 500;
constexpr uint64_t kSuspendedFraction = 4;  // of the machine's memory, for suspended sessions

constexpr char kUsage[] =
    "usage: busbar-launcher --runtime DIR --agent-socket PATH --driver LIBRARY\n"
    "                       [--listen ADDRESS] [--port N] [--cache DIR]\n"
    "                       [--suspended-bytes N]\n";

bool parse(int argc, char** argv, Settings& s, std::string& agent_socket) {
  static const option options[] = {{"runtime", 1, nullptr, 'r'},
                                   {"agent-socket", 1, nullptr, 'a'},
                                   {"driver", 1, nullptr, 'd'},
                                   {"listen", 1, nullptr, 'l'},
                                   {"port", 1, nullptr, 'p'},
                                   {"cache", 1, nullptr, 'i'},
                                   {"suspended-bytes", 1, nullptr, 's'},
                                   {}};
  for (int o; (o = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (o) {
      case 'r': s.runtime = optarg; break;
      case 'a': agent_socket = optarg; break;
      case 'd': s.driver = optarg; break;
      case 'l': s.listen_address = optarg; break;
      case 'p': s.port = std::atoi(optarg); break;
      case 'i': s.cache = optarg; break;
      case 's': s.suspended_bytes = std::strtoull(optarg, nullptr, 10); break;
      default: return false;
    }
  return !s.runtime.empty() && !agent_socket.empty() && !s.driver.empty();
}

uint64_t machine_memory() {
  auto pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
  return (CheckedSize(pages) * (uint64_t)sysconf(_SC_PAGESIZE)).value();
}

// Returns a descriptor that becomes readable on SIGTERM and SIGINT.
int block_stop_signals() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  return signalfd(-1, &stop, SFD_CLOEXEC);
}

// Watches the sessions until a signal. SIGINT ends them; SIGTERM leaves them to the next launcher.
[[noreturn]] void watch_until_signal(int signals, Sessions& sessions) {
  for (;;) {
    pollfd p{signals, POLLIN, 0};
    if (poll(&p, 1, kWatchMs) > 0) {
      signalfd_siginfo info;
      (void)!read(signals, &info, sizeof info);
      if (info.ssi_signo == SIGINT) sessions.end_all(control::kNodeStopped);
      std::_Exit(0);
    }
    sessions.watch();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::printf("busbar-launcher, protocol %u\n", wire::kProtocolVersion);
    return 0;
  }
  static Settings settings;
  settings.suspended_bytes = machine_memory() / kSuspendedFraction;
  std::string agent_socket;
  if (!parse(argc, argv, settings, agent_socket)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // no process of this user reads the keys in memory
  control::raise_descriptor_limit();
  int signals = block_stop_signals();
  static Ledgers ledgers(settings.runtime + "/ledgers");
  static LedgerPort ledger_port(ledgers);
  static Arbiters arbiters;
  static Grants grants(settings.runtime, ledgers, arbiters);
  static Sessions sessions(settings, grants, ledgers, ledger_port, arbiters);
  grants.load();
  // Failpoint: a test proves that it would notice a launcher without adoption.
  unsigned adopted = control::failpoint("NO_ADOPTION") ? 0 : sessions.adopt();
  sessions.watch();  // continues the accounts of the adopted sessions
  int listener = listen_on_port(settings.listen_address, settings.port);
  int agent = control::listen_at(agent_socket.c_str());
  std::string port = settings.listen_address + ":" + std::to_string(settings.port);
  if (listener < 0 || agent < 0) {
    control::log_line("launcher", "cannot listen", listener < 0 ? port : agent_socket, "exiting");
    return 1;
  }
  control::log_line("launcher", "listening", port, std::to_string(adopted) + " sessions adopted");
  std::thread([] { ledger_port.run(); }).detach();
  std::thread([] { arbiters.run(); }).detach();
  std::thread([] { sessions.start_spares(); }).detach();
  std::thread([listener] { serve_clients(listener, grants, sessions); }).detach();
  std::thread([agent] { serve_agent(agent, grants, sessions, arbiters, settings.port); }).detach();
  watch_until_signal(signals, sessions);
}
