#include "launcher/openings.h"

#include <sys/epoll.h>

#include <vector>

#include "transport/clock.h"

namespace busbar::launcher {

using transport::Handshake;

namespace {
constexpr int kEventsPerRound = 64;
}

Openings::Openings(size_t limit, size_t limit_by_network, Receiver receiver, RefusalWriter refuse)
    : receiver_(std::move(receiver)),
      refuse_(std::move(refuse)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      pending_(limit, limit_by_network) {}

void Openings::add(std::shared_ptr<Opening> opening, int64_t deadline_ms) {
  std::vector<std::shared_ptr<Opening>> evicted;  // closed without the mutex
  MutexLock lock(mutex_);
  int fd = opening->fd;
  for (int old : pending_.add({fd, opening->network, opening->client, deadline_ms, {}}))
    evicted.push_back(std::move(by_fd_.extract(old).mapped()));
  by_fd_[fd] = std::move(opening);
  // The first record is there, so that this wakes run(), which then observes the deadline.
  epoll_event event{EPOLLIN, {.fd = fd}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void Openings::run() {
  epoll_event events[kEventsPerRound];
  for (;;) {
    int count = epoll_wait(epoll_, events, kEventsPerRound, next_timeout_ms());
    for (int i = 0; i < count; ++i)
      if (auto opening = find(events[i].data.fd)) advance(opening);
    remove_expired();
  }
}

// Returns null if the connection was evicted in this round.
std::shared_ptr<Opening> Openings::find(int fd) {
  MutexLock lock(mutex_);
  auto it = by_fd_.find(fd);
  return it == by_fd_.end() ? nullptr : it->second;
}

void Openings::advance(const std::shared_ptr<Opening>& opening) {
  std::string reason;
  Handshake state = opening->advance(reason);
  if (state == Handshake::reads || state == Handshake::writes) {
    epoll_event event{state == Handshake::reads ? EPOLLIN : EPOLLOUT, {.fd = opening->fd}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, opening->fd, &event);
    return;
  }
  if (!remove(opening)) return;
  if (state == Handshake::complete)
    receiver_(opening);
  else
    refuse_(*opening, reason);
}

// Returns false if the connection was evicted meanwhile.
bool Openings::remove(const std::shared_ptr<Opening>& opening) {
  MutexLock lock(mutex_);
  auto it = by_fd_.find(opening->fd);
  if (it == by_fd_.end() || it->second != opening) return false;
  // The session server gets this socket: it must leave the set before.
  epoll_ctl(epoll_, EPOLL_CTL_DEL, opening->fd, nullptr);
  pending_.take(opening->fd);
  by_fd_.erase(it);
  return true;
}

void Openings::remove_expired() {
  std::vector<std::shared_ptr<Opening>> expired;
  {
    MutexLock lock(mutex_);
    for (int fd : pending_.take_expired(transport::now_ms()))
      expired.push_back(std::move(by_fd_.extract(fd).mapped()));
  }
  for (auto& opening : expired) refuse_(*opening, "the handshake timed out");
}

int Openings::next_timeout_ms() {
  MutexLock lock(mutex_);
  return pending_.next_deadline_ms(transport::now_ms());
}

}  // namespace busbar::launcher
