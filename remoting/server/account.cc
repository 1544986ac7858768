#include "server/account.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/messages.h"

namespace busbar::server {

using control::LedgerOp;

// A socket to the launcher, and the page that came over it: null on failure.
struct Account::Connection {
  explicit Connection(int fd)
      : socket(fd),
        page((const control::LedgerPage*)control::receive_page(fd, sizeof(control::LedgerPage),
                                                               &place, sizeof place)) {}
  ~Connection() {
    if (page) munmap(const_cast<control::LedgerPage*>(page), sizeof *page);
    ::close(socket);
  }
  Connection(const Connection&) = delete;

  // Bytes that the other sessions have charged, and contexts beyond the first one.
  uint64_t charged_by_others(uint32_t partition) const {
    uint64_t total = 0;
    for (uint32_t i = 0; i < control::kLedgerSessions; ++i)
      if (i != place.entry) total += page->sessions[i].charged_bytes[partition];
    // NOLINTNEXTLINE(custom-unchecked-sum): all charges are within the limit of the partition
    return total + page->further_context_bytes[partition];
  }
  void shut_down() const { shutdown(socket, SHUT_RDWR); }  // ends exchange()

  // Sends a request and waits for its answer. False when the launcher is gone.
  bool exchange(const control::LedgerRequest& request, control::LedgerAnswer& answer) const {
    ssize_t n;
    do n = send(socket, &request, sizeof request, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof request) return false;
    do n = recv(socket, &answer, sizeof answer, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof answer && answer.sequence == request.sequence;
  }

  const int socket;
  control::LedgerPlace place{};  // of this session on the page
  const control::LedgerPage* const page;
};

Account::Account(std::vector<uint64_t> limits, std::chrono::milliseconds patience)
    : limits_(std::move(limits)), patience_(patience), thread_([this] { run(); }) {}

Account::~Account() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (connection_) connection_->shut_down();
    changed_.notify_all();
  }
  thread_.join();
}

void Account::connect(int socket) {
  auto fresh = std::make_shared<const Connection>(socket);
  std::lock_guard lock(mutex_);
  if (connection_) connection_->shut_down();
  connection_ = std::move(fresh);
  if (connection_->page) shown_ = connection_;
  changed_.notify_all();
}

// Requires mutex_.
void Account::enqueue(control::LedgerRequest message, std::optional<bool>* granted) {
  message.sequence = ++last_sequence_;
  requests_.push_back({message, granted});
  changed_.notify_all();
}

void Account::post(LedgerOp op, const std::string& text) {
  control::LedgerRequest message{0, (uint32_t)op, 0, 0, {}};
  std::copy_n(text.data(), std::min(text.size(), sizeof message.name), message.name);
  std::lock_guard lock(mutex_);
  enqueue(message, nullptr);
}

// True if the launcher does not have all names yet. Requires mutex_.
bool Account::has_refused_call() const {
  return std::ranges::any_of(
      requests_, [](auto& r) { return r.message.op == (uint32_t)LedgerOp::refused_call; });
}

// Waits for the answer. False if it is no, or if there is none. Without an answer the request
// stays, because the launcher may have applied it.
bool Account::request(LedgerOp op, uint32_t partition, uint64_t bytes, Patience patience) {
  std::optional<bool> granted;
  auto ended = [&] {
    return granted.has_value() || stopping_;
  };
  std::unique_lock lock(mutex_);
  enqueue({0, (uint32_t)op, partition, bytes, {}}, &granted);
  if (patience == Patience::bounded)
    changed_.wait_for(lock, patience_, ended);
  else
    changed_.wait(lock, ended);
  if (!granted.has_value())
    std::ranges::find(requests_, &granted, &Request::granted)->granted = nullptr;
  return granted.value_or(false);
}

bool Account::reserve(uint32_t partition, uint64_t bytes, bool asks) {
  auto op = asks ? LedgerOp::reclaim : LedgerOp::reserve;
  return request(op, partition, bytes, Patience::bounded);
}

bool Account::open_context(uint32_t partition) {
  return request(LedgerOp::open_context, partition, 0, Patience::bounded);
}

bool Account::confirm_suspension() {
  return request(LedgerOp::suspended, 0, 0, Patience::endless);
}

void Account::reserve_when_free(uint32_t partition, uint64_t bytes) {
  request(LedgerOp::resume, partition, bytes, Patience::endless);
}

void Account::release(uint32_t partition, uint64_t bytes) {
  charged_here_[partition] -= bytes;
  std::lock_guard lock(mutex_);
  enqueue({0, (uint32_t)LedgerOp::release, partition, bytes, {}}, nullptr);
}

// Sends the first request until a launcher answers it.
void Account::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || (connection_ && !requests_.empty()); });
    if (stopping_) return;
    auto to = connection_;
    control::LedgerRequest message = requests_.front().message;
    lock.unlock();
    control::LedgerAnswer answer{};
    bool answered = to->exchange(message, answer);
    lock.lock();
    if (answered)
      finish(answer);
    else if (connection_ == to) {
      connection_ = nullptr;
      changed_.notify_all();
    }
  }
}

// Requires mutex_.
void Account::finish(const control::LedgerAnswer& answer) {
  Request request = requests_.front();
  requests_.pop_front();
  auto& message = request.message;
  auto op = (LedgerOp)message.op;
  bool charges = op == LedgerOp::reserve || op == LedgerOp::reclaim || op == LedgerOp::resume;
  if (charges && answer.granted) {
    if (request.granted)
      charged_here_[message.partition] += message.bytes;
    else
      enqueue({0, (uint32_t)LedgerOp::release, message.partition, message.bytes, {}}, nullptr);
  }
  if (request.granted) *request.granted = answer.granted != 0;
  changed_.notify_all();
}

void Account::send_last_names() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastNames, [&] { return !connection_ || !has_refused_call(); });
}

void Account::wait_until_answered() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return requests_.empty(); });
}

std::shared_ptr<const Account::Connection> Account::connection() const {
  std::lock_guard lock(mutex_);
  return shown_;
}

uint64_t Account::limit(uint32_t partition) const {
  if (auto c = connection()) return c->page->limit_bytes[partition];
  return partition < limits_.size() ? limits_[partition] : 0;
}

uint64_t Account::charged(uint32_t partition) const {
  auto c = connection();
  // NOLINTNEXTLINE(custom-unchecked-sum): charges are within the limit of the partition
  return charged_here(partition) + (c ? c->charged_by_others(partition) : 0);
}

bool Account::has_session(pid_t pid) const {
  auto c = connection();
  return c && std::ranges::any_of(c->page->sessions,
                                  [&](auto& entry) { return entry.server_pid == (uint32_t)pid; });
}

uint32_t Account::own_session() const {
  auto c = connection();
  return c ? c->page->sessions[c->place.entry].server_pid.load() : 0;
}

std::vector<wire::NvmlProcess> Account::processes(uint32_t partition) const {
  std::vector<wire::NvmlProcess> list;
  auto c = connection();
  if (!c) return list;
  for (auto& entry : c->page->sessions)
    if (entry.server_pid) list.push_back({entry.client_pid, 0, entry.charged_bytes[partition]});
  return list;
}

}  // namespace busbar::server
