#include "launcher/ledger_port.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "control/failpoints.h"
#include "launcher/pidfd.h"
#include "transport/clock.h"

namespace busbar::launcher {

namespace {
constexpr int kEvents = 64;
// Time in which a session returns unused memory; its program may be stopped.
constexpr int kReturnMs = 2000, kReturnTickMs = 100;

// Failpoint: the launcher is killed before or after it applies the request of an operation.
void reach(const char* step, uint32_t op) {
  static const char* killed_at = control::failpoint("LEDGER");
  if (killed_at && killed_at == step + std::to_string(op)) kill(getpid(), SIGKILL);
}
}  // namespace

LedgerPort::LedgerPort(Ledgers& ledgers)
    : ledgers_(ledgers), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

// Takes over the descriptor.
bool LedgerPort::watch(int fd, const Watched& watched) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (fd < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event)) {
    if (fd >= 0) ::close(fd);
    return false;
  }
  watched_[fd] = watched;
  (watched.is_process ? processes_ : sockets_)[watched.account.session] = fd;
  return true;
}

// epoll reports a descriptor that was closed for as long as it has a duplicate, and the launcher
// has other descriptors of the same process; run() would never sleep. So it is removed first.
void LedgerPort::forget(int fd) {
  auto it = watched_.find(fd);
  (it->second.is_process ? processes_ : sockets_).erase(it->second.account.session);
  watched_.erase(it);
  waiting_.remove(fd);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  ::close(fd);
}

int LedgerPort::connect(const Account& account, uint32_t client_pid, int pidfd,
                        const SessionAddress& server) {
  int pair[2];
  if (!ledgers_.add(account, (uint32_t)server.pid, client_pid, pidfd) ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
    return -1;
  FairLock lock(mutex_);
  if (auto old = sockets_.find(account.session); old != sockets_.end()) forget(old->second);
  bool has_process = processes_.count(account.session) ||
                     watch(fcntl(pidfd, F_DUPFD_CLOEXEC, 0), {account, true, {}, server});
  if (watch(pair[0], {account, false, {}, server}) && has_process &&
      ledgers_.send_page(account, pair[0]))
    return pair[1];
  if (auto made = sockets_.find(account.session); made != sockets_.end()) forget(made->second);
  ::close(pair[1]);
  return -1;
}

bool LedgerPort::is_connected(const SessionId& session) {
  FairLock lock(mutex_);
  return sockets_.count(session);
}

// Applies a request, and answers it unless it waits. False when the connection must be closed.
bool LedgerPort::answer(int fd, Watched& watched, const control::LedgerRequest& request) {
  control::LedgerAnswer answer;
  reach("before ", request.op);
  if (!ledgers_.apply(watched.account, request, answer)) return false;
  reach("after ", request.op);
  bool waits = !answer.sequence;
  if (waits && !watched.waiting) waiting_.push_back(fd);
  if (!waits && watched.waiting) waiting_.remove(fd);
  watched.waiting = waits ? std::optional(request) : std::nullopt;
  if (waits) ask(watched.account.allocation);
  return waits ||
         send(fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof answer;
}

// A session that cannot be told is not waited for.
void LedgerPort::ask(const std::string& allocation) {
  for (auto& session : ledgers_.take_asked(allocation, transport::now_ms() + kReturnMs)) {
    asking_ = true;
    auto it = sockets_.find(session);
    if (it == sockets_.end() ||
        !post_request(watched_.at(it->second).server, control::Kind::memory_wanted, nullptr, 0))
      ledgers_.note_returned({allocation, session});
  }
}

void LedgerPort::expire_asked() {
  FairLock lock(mutex_);
  next_expiry_ms_ = transport::now_ms() + kReturnTickMs;
  asking_ = ledgers_.expire_asked(transport::now_ms());
  serve_waiting(nullptr);
}

// False when the connection must be closed.
bool LedgerPort::serve_request(int fd, Watched& watched) {
  control::LedgerRequest request;
  ssize_t n = recv(fd, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  return n == (ssize_t)sizeof request && !watched.waiting && answer(fd, watched, request);
}

// Tries the waiting requests of an allocation (null: of all) again.
void LedgerPort::serve_waiting(const std::string* allocation) {
  for (int fd : std::list<int>(waiting_)) {
    Watched& watched = watched_.at(fd);
    if (!watched.waiting || (allocation && watched.account.allocation != *allocation)) continue;
    control::LedgerRequest request = *watched.waiting;
    if (!answer(fd, watched, request)) forget(fd);
  }
}

void LedgerPort::serve_waiting() {
  FairLock lock(mutex_);
  serve_waiting(nullptr);
}

// An event may be of an earlier descriptor with this number, so nothing follows from it alone.
void LedgerPort::serve(int fd) {
  FairLock lock(mutex_);
  auto it = watched_.find(fd);
  if (it == watched_.end()) return;
  Account account = it->second.account;
  if (!it->second.is_process) {
    if (!serve_request(fd, it->second)) forget(fd);
  } else if (has_ended(fd)) {
    ledgers_.end(account);
    forget(fd);
  }
  serve_waiting(&account.allocation);
}

void LedgerPort::run() {
  epoll_event events[kEvents];
  for (;;) {
    int n = epoll_wait(epoll_, events, kEvents, asking_ ? kReturnTickMs : -1);
    for (int i = 0; i < n; ++i) serve(events[i].data.fd);
    if (asking_ && transport::now_ms() >= next_expiry_ms_) expire_asked();
  }
}

}  // namespace busbar::launcher
