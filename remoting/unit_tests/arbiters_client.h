// A session server's end of the channel to the arbiters, and grants, for tests.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "control/messages.h"
#include "control/turn_messages.h"
#include "launcher/arbiters.h"

namespace busbar::launcher {

using control::TurnNotice;
using control::TurnOp;
using control::TurnState;

constexpr std::chrono::seconds kEvent{60};

// The end of a session server, without its logic.
class Client {
 public:
  Client(Arbiters& arbiters, const Account& account)
      : socket(arbiters.connect(account)),
        page((const control::TurnPage*)control::receive_page(socket, sizeof *page)) {}
  ~Client() { close(socket); }
  void send(TurnOp op, uint32_t turn = 0, uint32_t partition = 0) const {
    TurnNotice notice{(uint32_t)op, partition, turn, 1};
    ::send(socket, &notice, sizeof notice, MSG_NOSIGNAL);
  }
  // Blocks until the page shows the state. Returns the number of the turn.
  uint32_t wait_for(TurnState state, uint32_t partition = 0) const {
    uint8_t message;
    while (control::state_of_word(page->word[partition]) != state)
      if (recv(socket, &message, sizeof message, 0) <= 0) ADD_FAILURE() << "connection lost";
    return control::turn_of_word(page->word[partition]);
  }
  uint32_t turn(uint32_t partition) const { return control::turn_of_word(page->word[partition]); }
  TurnState state(uint32_t partition) const {
    return control::state_of_word(page->word[partition]);
  }
  void report_idle(uint32_t turn, uint32_t partition = 0) const {
    TurnNotice notice{(uint32_t)TurnOp::drained, partition, turn, 0};
    ::send(socket, &notice, sizeof notice, MSG_NOSIGNAL);
  }
  // Says that work waits and none runs, if there is no turn.
  void end_turn(uint32_t partition = 0) const {
    if (state(partition) == TurnState::closed) send(TurnOp::drained, turn(partition), partition);
  }
  // False if the page does not show the state in time.
  bool shows(TurnState wanted) const {
    auto end = std::chrono::steady_clock::now() + kEvent;
    while (state(0) != wanted && std::chrono::steady_clock::now() < end) usleep(1000);
    return state(0) == wanted;
  }
  // Does what a session with work on two GPUs does at the end of its turn.
  void drain_both() const {
    for (uint32_t p : {0u, 1u}) send(TurnOp::drained, wait_for(TurnState::closed, p), p);
  }
  const int socket;
  const control::TurnPage* const page;
};

// Half of each of these GPUs.
inline control::Allocation half_of(std::vector<uint8_t> gpus) {
  control::Allocation a{};
  a.partitions = (uint32_t)gpus.size();
  for (uint32_t p = 0; p < a.partitions; ++p) {
    a.partition[p].compute_percent = 50;
    a.partition[p].gpu_uuid[0] = gpus[p];
  }
  return a;
}

inline control::Allocation allocation_of(uint32_t percent) {
  control::Allocation a{};
  a.partitions = 1;
  a.partition[0].compute_percent = percent;
  return a;
}

// The arbiters live as long as the process: a thread uses them.
inline Arbiters& running_arbiters() {
  auto& arbiters = *new Arbiters;
  arbiters.set_allocation("a", allocation_of(30));
  arbiters.set_allocation("b", allocation_of(70));
  std::thread([&] { arbiters.run(); }).detach();
  return arbiters;
}

}  // namespace busbar::launcher
