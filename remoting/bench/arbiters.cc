// Processor time of the launcher's arbiters, for sessions that all want turns: their clock is
// simulated, their system calls are real. Prints it in percent of a core.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/messages.h"
#include "launcher/arbiters.h"

using namespace busbar;
using launcher::Microseconds;

namespace {
constexpr uint32_t kGpus = 8, kSessions = 100;  // on each GPU
constexpr Microseconds kDrain = 40, kSecond = 1'000'000;

// Later than the real time, so that no timer fires.
Microseconds g_now = launcher::Arbiters::monotonic_now() + 3600 * kSecond;

// A session server whose work fills its turns and needs kDrain to end after each.
class Session {
 public:
  Session(launcher::Arbiters& arbiters, const launcher::Account& account, uint32_t partitions)
      : partitions_(partitions),
        socket_(arbiters.connect(account)),
        page_((const control::TurnPage*)control::receive_page(socket_, sizeof *page_)) {}
  int socket() const { return socket_; }
  void want() {
    for (uint32_t p = 0; p < partitions_; ++p) send({(uint32_t)control::TurnOp::want, p, 0, 0});
  }
  // Calls `after(partition)` for each turn that has ended.
  template <class After>
  void look(After after) {
    drain_socket();
    for (uint32_t p = 0; p < partitions_; ++p) {
      uint32_t word = page_->word[p];
      if (word == std::exchange(seen_[p], word)) continue;
      if (control::state_of_word(word) != control::TurnState::turn) after(p);
    }
  }
  void report(uint32_t p) {
    send({(uint32_t)control::TurnOp::drained, p, control::turn_of_word(page_->word[p]), 1});
  }

 private:
  void send(const control::TurnNotice& notice) {
    (void)!::send(socket_, &notice, sizeof notice, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void drain_socket() {
    for (uint8_t message; recv(socket_, &message, sizeof message, MSG_DONTWAIT) > 0;) {
    }
  }
  const uint32_t partitions_;
  const int socket_;
  const control::TurnPage* const page_;
  uint32_t seen_[wire::kMaxDevices] = {};
};

class Node {
 public:
  // Each session uses `partitions` GPUs.
  explicit Node(uint32_t partitions) {
    for (uint32_t i = 0; i < kGpus * kSessions / partitions; ++i) {
      add(i, partitions);
      sessions_.back()->want();
      step();
      g_now += 97;  // the turns of different GPUs end at different times
    }
  }
  void run_for(Microseconds duration) {
    for (Microseconds end = g_now + duration; g_now < end;) {
      Microseconds drained = drains_.empty() ? launcher::Arbiter::kNever : drains_.begin()->first;
      g_now = std::max(g_now, std::min({drained, arbiters_.next_deadline(), end}));
      while (!drains_.empty() && drains_.begin()->first <= g_now) {
        auto [session, partition] = drains_.begin()->second;
        session->report(partition);
        drains_.erase(drains_.begin());
      }
      step();
    }
  }
  double seconds() const { return (double)used_ns_ / 1e9; }

 private:
  static int64_t processor_ns() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
  }
  void add(uint32_t number, uint32_t partitions) {
    control::Allocation a{};
    a.partitions = partitions;
    for (uint32_t p = 0; p < partitions; ++p) {
      a.partition[p].gpu_uuid[0] = (uint8_t)((number + p) % kGpus);
      a.partition[p].compute_percent = 100 / kSessions;
    }
    std::string id = "allocation " + std::to_string(number);
    arbiters_.set_allocation(id, a);
    launcher::SessionId session{};
    std::memcpy(session.data(), &number, sizeof number);
    sessions_.push_back(
        std::make_unique<Session>(arbiters_, launcher::Account{id, session}, partitions));
    epoll_event event{EPOLLIN, {.ptr = sessions_.back().get()}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, sessions_.back()->socket(), &event);
  }
  void step() {
    int64_t before = processor_ns();
    arbiters_.step(1);
    used_ns_ += processor_ns() - before;
    look();
  }
  // Lets the sessions that got a message react to it.
  void look() {
    epoll_event events[kSessions];
    int n = epoll_wait(epoll_, events, kSessions, 0);
    for (int i = 0; i < n; ++i) {
      auto* s = (Session*)events[i].data.ptr;
      s->look([&](uint32_t p) { drains_.emplace(g_now + kDrain, std::pair(s, p)); });
    }
    if (n == (int)kSessions) look();
  }
  launcher::Arbiters arbiters_{[] { return g_now; }};
  std::vector<std::unique_ptr<Session>> sessions_;
  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::multimap<Microseconds, std::pair<Session*, uint32_t>> drains_;
  int64_t used_ns_ = 0;
};

double percent_of_a_core(uint32_t partitions, int seconds) {
  Node node(partitions);
  node.run_for(kSecond);
  double before = node.seconds();
  node.run_for(seconds * kSecond);
  return 100 * (node.seconds() - before) / seconds;
}
}  // namespace

int main() {
  std::printf("{\"one_gpu_each\": %.2f,", percent_of_a_core(1, 10));
  std::printf(" \"all_gpus_each\": %.2f}\n", percent_of_a_core(kGpus, 2));
}
