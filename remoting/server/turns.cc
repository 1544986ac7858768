#include "server/turns.h"

#include <poll.h>
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
using Time = std::chrono::steady_clock::time_point;
}  // namespace

// A socket to the launcher, and the page that came over it: null on failure.
struct Turns::Connection {
  explicit Connection(int fd)
      : socket(fd),
        page((const control::TurnPage*)control::receive_page(fd, sizeof(control::TurnPage))) {}
  ~Connection() { ::close(socket); }
  Connection(const Connection&) = delete;

  bool is_open(size_t partition) const {
    return control::state_of_word(page->word[partition].load()) == control::TurnState::open;
  }
  bool needs_turns(size_t partitions) const {
    for (size_t p = 0; p < partitions; ++p)
      if (!is_open(p)) return true;
    return false;
  }
  // True if the launcher has shown no beat for kSilence while this session needed turns.
  bool is_silent(size_t partitions) {
    Time now = std::chrono::steady_clock::now();
    bool needed = std::exchange(needed_turns, needs_turns(partitions));
    uint32_t newest = page->beat.load();
    if (std::exchange(beat, newest) != newest || !newest || !needed || !needed_turns) beat_at = now;
    return now - beat_at >= kSilence;
  }

  const int socket;
  const control::TurnPage* const page;  // a gate may read it at any time
  std::array<GateWatch, wire::kMaxDevices> watches;
  // Of its thread:
  bool needed_turns = false;  // at the last look
  uint32_t beat = 0;
  Time beat_at;          // when it changed, or turns were not needed
  bool is_lost = false;  // the gates do not use the page
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
  use_page(*fresh);
  std::thread([this, fresh] { run(fresh); }).detach();
  replaced_.notify_all();
}

// Requires mutex_.
void Turns::use_page(Connection& connection) {
  for (uint32_t p = 0; p < gates_.size(); ++p) gates_[p].use(&connection.page->word[p]);
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
  int idle_ms = connection.needs_turns(gates_.size()) ? control::kBeatMs : -1;
  int ready = poll(&p, 1, has_turn ? kTickMs : idle_ms);
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
  while (wait_for_change(*connection))
    if (connection->is_silent(gates_.size())) {
      lose(connection, "the launcher is stopped");
    } else if (connection->is_lost) {  // the launcher goes on
      std::lock_guard lock(mutex_);
      use_again(*connection);
    }
  lose(connection, "the launcher is gone");
}

void Turns::lose(const std::shared_ptr<Connection>& connection, const char* reason) {
  auto replace = [this](auto unless, const std::atomic<uint32_t>* source) {
    for (auto& gate : gates_)
      if (!unless(gate)) gate.use(source);
    wake();
  };
  auto is_open = [](TurnGate& gate) {
    return control::state_of_word(gate.word().load()) == control::TurnState::open;
  };
  std::unique_lock lock(mutex_);
  bool is_known = std::exchange(connection->is_lost, true);
  if (is_known || !is_current(connection) || std::ranges::all_of(gates_, is_open)) return;
  control::log_line("session server", "shares unenforced", "pid " + std::to_string(getpid()),
                    reason);
  replace(is_open, &TurnGate::kOpen);
  connection->beat = connection->page->beat.load();
  auto returns = [&] {
    return !is_current(connection) || connection->page->beat.load() != connection->beat;
  };
  for (Time end = std::chrono::steady_clock::now() + unenforced_;
       std::chrono::steady_clock::now() < end;)
    if (replaced_.wait_for(lock, std::chrono::milliseconds(control::kBeatMs), returns))
      return use_again(*connection);
  replace([](TurnGate& gate) { return &gate.word() != &TurnGate::kOpen; }, &TurnGate::kClosed);
  control::log_line("session server", "work waits", "pid " + std::to_string(getpid()),
                    "no launcher gives turns");
}

// Requires mutex_.
void Turns::use_again(Connection& connection) {
  connection.is_lost = false;
  if (connection_.get() != &connection) return;
  use_page(connection);
  control::log_line("session server", "shares enforced again", "pid " + std::to_string(getpid()),
                    "the launcher goes on");
}

void Turns::begin_outside(uint32_t partition) {
  gates_[partition].begin_outside([this] {
    std::lock_guard lock(mutex_);
    wake();
  });
}

void Turns::end_outside(uint32_t partition) {
  gates_[partition].end_outside();
  std::lock_guard lock(mutex_);
  wake();
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
