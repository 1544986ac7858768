#include "server/turns.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "control/log.h"
#include "control/messages.h"

namespace busbar::server {

namespace {
// A turn without work ends after one to two of these.
constexpr int kTickMs = 1;
}  // namespace

// A socket to the launcher, and the page that came over it. The page stays mapped: a gate may read
// it at any time.
struct Turns::Connection {
  explicit Connection(int fd) : socket(fd) {
    control::Header head;
    int descriptor = -1;
    // The launcher has sent the page before it gave away the socket.
    if (!control::receive_message(socket, head, nullptr, 0, &descriptor, 0) || descriptor < 0)
      return;
    void* at = mmap(nullptr, sizeof(control::TurnPage), PROT_READ, MAP_SHARED, descriptor, 0);
    if (at != MAP_FAILED) page = (const control::TurnPage*)at;
    ::close(descriptor);
  }
  ~Connection() { ::close(socket); }
  Connection(const Connection&) = delete;

  const int socket;
  const control::TurnPage* page = nullptr;
  std::array<GateWatch, wire::kMaxDevices> watches;
};

bool GateWatch::tick(TurnGate& gate) {
  uint32_t submissions = gate.submissions();
  bool is_idle = gate.has_turn() && !gate.has_fenced() &&
                 submissions == std::exchange(submissions_, submissions);
  if (is_idle) gate.suggest_end();
  return is_idle;
}

Turns::Turns(uint32_t partitions, std::chrono::milliseconds unenforced) : unenforced_(unenforced) {
  for (uint32_t p = 0; p < partitions; ++p) gates_.emplace_back(p, send, this);
}

void Turns::set_wake(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// Requires mutex_.
void Turns::wake() {
  changed_ = true;
  if (wake_) wake_();
}

void Turns::connect(int socket) {
  auto fresh = std::make_shared<Connection>(socket);
  if (!fresh->page) return;
  std::lock_guard lock(mutex_);
  if (connection_) shutdown(connection_->socket, SHUT_RDWR);
  connection_ = fresh;
  for (uint32_t p = 0; p < gates_.size(); ++p) gates_[p].use(&fresh->page->word[p]);
  std::thread([this, fresh] { run(fresh); }).detach();
  replaced_.notify_all();
  wake();
}

bool Turns::send(void* turns, const control::TurnNotice& notice) {
  auto& self = *(Turns*)turns;
  std::lock_guard lock(self.mutex_);
  return self.connection_ && ::send(self.connection_->socket, &notice, sizeof notice,
                                    MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof notice;
}

void Turns::look_at_gates(Connection& connection) {
  bool found = false;
  for (uint32_t p = 0; p < gates_.size(); ++p) found |= connection.watches[p].tick(gates_[p]);
  std::lock_guard lock(mutex_);
  if (found) wake();
}

// False when the launcher is gone.
bool Turns::wait_for_change(Connection& connection) {
  pollfd p{connection.socket, POLLIN, 0};
  bool has_turn = std::ranges::any_of(gates_, &TurnGate::has_turn);
  int ready = poll(&p, 1, has_turn ? kTickMs : -1);
  if (ready <= 0) {
    look_at_gates(connection);
    return ready == 0 || errno == EINTR;
  }
  uint8_t message;
  ssize_t n;
  do n = recv(connection.socket, &message, sizeof message, MSG_DONTWAIT);
  while (n > 0);
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
  std::lock_guard lock(mutex_);
  wake();
  return true;
}

void Turns::run(const std::shared_ptr<Connection>& connection) {
  while (wait_for_change(*connection)) {
  }
  lose(connection);
}

void Turns::lose(const std::shared_ptr<Connection>& connection) {
  auto replace = [this](auto unless, const std::atomic<uint32_t>* source) {
    for (auto& gate : gates_)
      if (!unless(gate)) gate.use(source);
    wake();
  };
  auto is_open = [](TurnGate& gate) {
    return control::state_of_word(gate.word().load()) == control::TurnState::open;
  };
  std::unique_lock lock(mutex_);
  if (!is_current(connection) || std::ranges::all_of(gates_, is_open)) return;
  control::log_line("session server", "shares unenforced", "pid " + std::to_string(getpid()),
                    "the launcher is gone");
  replace(is_open, &TurnGate::kOpen);
  if (replaced_.wait_for(lock, unenforced_, [&] { return !is_current(connection); })) return;
  replace([](TurnGate& gate) { return &gate.word() != &TurnGate::kOpen; }, &TurnGate::kClosed);
  control::log_line("session server", "work waits", "pid " + std::to_string(getpid()),
                    "no launcher gives turns");
}

void Turns::begin_pass() {
  for (auto& gate : gates_) gate.begin_pass();
}

void Turns::end_pass() {
  for (auto& gate : gates_) gate.end_pass();
}

bool Turns::may_stall() const {
  return std::ranges::any_of(gates_, &TurnGate::may_stall);
}

bool Turns::is_draining() const {
  return std::ranges::any_of(gates_, [](auto& gate) { return gate.is_draining(); });
}

}  // namespace busbar::server
