#include "launcher/arbiters.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "control/messages.h"
#include "server/turns.h"

namespace busbar::launcher {
namespace {

using control::Enforcement;
using control::TurnNotice;
using control::TurnOp;
using control::TurnState;

control::Allocation allocation_of(uint32_t percent) {
  control::Allocation a{};
  a.partitions = 1;
  a.partition[0].compute_percent = percent;
  return a;
}

// The arbiters live as long as the process: a thread uses them.
Arbiters& running_arbiters() {
  auto& arbiters = *new Arbiters;
  arbiters.set_allocation("a", allocation_of(30));
  arbiters.set_allocation("b", allocation_of(70));
  std::thread([&] { arbiters.run(); }).detach();
  return arbiters;
}

// The end of a session server, without its logic.
class Client {
 public:
  Client(Arbiters& arbiters, const Account& account) : socket(arbiters.connect(account)) {
    control::Header head;
    control::receive_message(socket, head, nullptr, 0, &descriptor);
    page =
        (const control::TurnPage*)mmap(nullptr, sizeof *page, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  ~Client() {
    close(socket);
    close(descriptor);
  }
  void send(TurnOp op, uint32_t turn = 0, uint32_t partition = 0) const {
    TurnNotice notice{(uint32_t)op, partition, turn, 1};
    ::send(socket, &notice, sizeof notice, MSG_NOSIGNAL);
  }
  // Blocks until the page shows the state. Returns the number of the turn.
  uint32_t wait_for(TurnState state) const {
    uint8_t message;
    while (control::state_of_word(page->word[0]) != state)
      if (recv(socket, &message, sizeof message, 0) <= 0) ADD_FAILURE() << "connection lost";
    return control::turn_of_word(page->word[0]);
  }
  const int socket;
  int descriptor = -1;
  const control::TurnPage* page;
};

TEST(Arbiters, TurnsAlternateBetweenAllocations) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  a.wait_for(TurnState::open);
  EXPECT_EQ(arbiters.enforcement({1}), Enforcement::alone);
  Client b(arbiters, {"b", {2}});
  a.wait_for(TurnState::turn);
  EXPECT_EQ(arbiters.enforcement({1}), Enforcement::turns);
  for (int i = 0; i < 5; ++i) {
    b.send(TurnOp::want);
    a.send(TurnOp::drained, a.wait_for(TurnState::closed));
    b.wait_for(TurnState::turn);
    b.send(TurnOp::drained, b.wait_for(TurnState::closed));
    a.wait_for(TurnState::turn);
  }
}

TEST(Arbiters, TurnThatDoesNotDrainIsReportedAndOpened) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  Client b(arbiters, {"b", {2}});
  a.wait_for(TurnState::turn);
  b.send(TurnOp::want);
  a.wait_for(TurnState::closed);
  b.wait_for(TurnState::turn);
  EXPECT_EQ(arbiters.enforcement({1}), Enforcement::sliced);
  EXPECT_EQ(arbiters.enforcement({2}), Enforcement::turns);
}

TEST(Arbiters, SessionsOfOneAllocationShareATurn) {
  auto& arbiters = running_arbiters();
  Client b(arbiters, {"b", {3}});
  Client first(arbiters, {"a", {1}});
  Client second(arbiters, {"a", {2}});
  first.send(TurnOp::want);
  second.send(TurnOp::want);
  b.send(TurnOp::drained, b.wait_for(TurnState::closed));
  uint32_t turn = first.wait_for(TurnState::turn);
  EXPECT_EQ(second.wait_for(TurnState::turn), turn);
}

TEST(Arbiters, EndOfASessionGivesTheGpuToTheOther) {
  auto& arbiters = running_arbiters();
  auto a = std::make_unique<Client>(arbiters, Account{"a", {1}});
  Client b(arbiters, {"b", {2}});
  a.reset();
  b.wait_for(TurnState::open);
}

TEST(Arbiters, PageCannotBeMappedWritable) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, a.descriptor, 0), MAP_FAILED);
  EXPECT_LT(pwrite(a.descriptor, "x", 1, 0), 0);
}

TEST(Arbiters, SessionThatBreaksTheProtocolLosesItsConnection) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  a.send(TurnOp::want, 0, 7);
  uint8_t message;
  while (recv(a.socket, &message, sizeof message, 0) > 0) {
  }
  EXPECT_EQ(arbiters.enforcement({1}), Enforcement::unenforced);
}

TEST(Arbiters, AllocationWithoutGrantGetsNoConnection) {
  EXPECT_LT(running_arbiters().connect({"unknown", {1}}), 0);
}

// Waits until the gate may submit, or may not.
bool becomes(server::Turns& turns, bool may_submit) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (turns.gate(0)->may_submit() != may_submit)
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

TEST(Turns, WithoutLauncherWorkRunsForAWhileAndThenWaitsForTheNext) {
  auto& arbiters = running_arbiters();
  Client b(arbiters, {"b", {2}});
  auto& turns = *new server::Turns(1, std::chrono::milliseconds(200));
  int mine = arbiters.connect({"a", {1}});
  turns.connect(mine);
  EXPECT_FALSE(turns.gate(0)->may_submit());
  shutdown(mine, SHUT_RDWR);  // as at the end of the launcher
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(becomes(turns, true)) << "unenforced";
  EXPECT_TRUE(becomes(turns, false)) << "waits for the next launcher";
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(150));
  turns.connect(running_arbiters().connect({"a", {1}}));
  EXPECT_TRUE(becomes(turns, true)) << "the next launcher has no other session";
}

}  // namespace
}  // namespace busbar::launcher
