// Starts one session server for one client process and hands it the client's connection.
#include <openssl/rand.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "launcher/sessions.h"

extern char** environ;

namespace busbar::launcher {

namespace {
constexpr auto kSpareDelay =
    std::chrono::milliseconds(100);  // the program that just came has the machine first
constexpr int kStartSeconds =
    30;  // loading a driver and creating its first context takes seconds on some GPUs

pid_t spawn_program(const std::string& program, const std::string& driver, int start_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, start_fd, 3);
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char* argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>("--driver"),
                  const_cast<char*>(driver.c_str()), nullptr};
  pid_t pid = -1;
  if (posix_spawn(&pid, program.c_str(), &actions, &attributes, argv, environ)) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return pid;
}

void be_patient(int fd) {
  timeval patience{kStartSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void copy_text(char* to, size_t room, const std::string& from) {
  std::snprintf(to, room, "%s", from.c_str());
}
}  // namespace

// A process that has loaded the driver and waits to be told whose session it is. `fd` is -1 when it
// cannot be had.
Sessions::Waiting Sessions::spawn() const {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return {};
  pid_t pid = spawn_program(settings_.session_program, settings_.driver, pair[1]);
  ::close(pair[1]);
  if (pid < 0) {
    ::close(pair[0]);
    return {};
  }
  be_patient(pair[0]);
  return {pid, pair[0]};
}

Sessions::Waiting Sessions::take_spare() {
  Waiting w;
  {
    std::lock_guard lock(mutex_);
    std::swap(w, spare_);
  }
  char byte;
  bool gone = w.fd >= 0 && recv(w.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  if (gone) {
    ::close(w.fd);
    waitpid(w.pid, nullptr, WNOHANG);
    w = {};
  }
  return w.fd >= 0 ? w : spawn();
}

// One process is ready before it is asked for: loading a driver is most of what a program would
// wait for.
void Sessions::keep_spare() {
  {
    std::lock_guard lock(mutex_);
    if (spare_.fd >= 0) return;
  }
  std::this_thread::sleep_for(kSpareDelay);
  Waiting fresh = spawn();
  std::lock_guard lock(mutex_);
  if (spare_.fd < 0)
    spare_ = fresh;
  else if (fresh.fd >= 0)
    ::close(fresh.fd);  // somebody was faster; it ends by itself
}

void Sessions::open(transport::Tls tls, const Ticket& ticket, const Grant& grant,
                    const wire::OpenRequest& request, const std::string& client_address) {
  control::SessionStart start{};
  wire::OpenReply reply{};
  auto answer = [&](uint32_t status, const char* text) {
    reply.status = status;
    copy_text(reply.message, sizeof reply.message, text);
    return tls.write_all(&reply, sizeof reply, 5000);
  };
  transport::Secret key;
  if (RAND_bytes(start.id, sizeof start.id) != 1 || !tls.export_key(wire::kExporterLabel, key)) {
    answer(1, "no session key could be made");
    return;
  }
  std::memcpy(start.key, key.data(), key.size());
  std::memcpy(reply.session, start.id, sizeof start.id);
  start.partitions = grant.allocation.partitions;
  std::memcpy(start.partition, grant.allocation.partition, sizeof start.partition);
  std::string images = settings_.runtime + "/images/" + hex(grant.allocation.tenant, 16);
  mkdir(images.c_str(), 0700);
  start.client_pid = request.pid;
  std::memcpy(start.meeting, request.meeting, sizeof start.meeting);
  std::memcpy(start.free_addresses, request.free_addresses, sizeof start.free_addresses);
  copy_text(start.ledger_path, sizeof start.ledger_path, grant.ledger_path);
  copy_text(start.image_folder, sizeof start.image_folder, images);
  copy_text(start.driver, sizeof start.driver, settings_.driver);
  copy_text(start.socket_path, sizeof start.socket_path, socket_path(start.id));

  Waiting process = take_spare();
  if (process.fd < 0) {
    answer(1, "the node is out of descriptors or processes");
    return;
  }
  pid_t pid = process.pid;
  Session s;
  std::memcpy(s.record.id, start.id, 16);
  std::memcpy(s.record.allocation, grant.allocation.id, 16);
  s.record.pid = (uint32_t)pid;
  s.record.state = (uint32_t)control::SessionState::opening;
  s.record.opened_seconds = (uint64_t)time(nullptr);
  s.record.client_pid = request.pid;
  std::memcpy(s.record.program, request.program, sizeof s.record.program);
  s.record.program[sizeof s.record.program - 1] = 0;
  copy_text(s.record.client_address, sizeof s.record.client_address, client_address);
  s.start_time = server::process_start_time(pid);
  s.fence_epoch = ticket.body.fence_epoch;
  s.fence_counter = ticket.body.fence_counter;
  s.mine = 1;
  std::string id = hex(start.id, 16);
  if (pid > 0) {
    std::lock_guard lock(mutex_);
    sessions_[id] = s;
    save(s);
  }
  control::Header h{};
  auto about = std::make_unique<control::SessionReady>();
  bool ready =
      pid > 0 &&
      control::send_message(process.fd, control::Kind::start, &start, sizeof start, tls.fd()) &&
      control::receive_message(process.fd, h, about.get(), sizeof *about) &&
      h.kind == (uint32_t)control::Kind::ok &&
      h.bytes == offsetof(control::SessionReady, description) + about->bytes;
  if (!ready) {
    ::close(process.fd);
    answer(2, pid > 0
                  ? "the session server could not start; the launcher's log on the node says why"
                  : "the session server program is missing on the node");
    if (pid > 0) kill(pid, SIGKILL);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find(id);
    if (it != sessions_.end() &&
        it->second.record.state == (uint32_t)control::SessionState::opening) {
      it->second.record.state = (uint32_t)control::SessionState::running;
      save(it->second);
    }
  }
  reply.shared = about->shared;
  reply.description_bytes = about->bytes;
  if (answer(0, "")) tls.write_all(about->description, about->bytes, 5000);
  ::close(process.fd);        // from here on the connection is the session server's
  ::close(tls.release_fd());  // the session server holds its own copy
  keep_spare();
}

}  // namespace busbar::launcher
