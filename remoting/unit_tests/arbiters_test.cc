#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "control/messages.h"
#include "launcher/arbiters.h"
#include "unit_tests/arbiters_client.h"

namespace busbar::launcher {
namespace {

using control::Enforcement;

TEST(Arbiters, TurnsAlternateBetweenAllocations) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  a.wait_for(TurnState::open);
  EXPECT_EQ(arbiters.limit({1}).enforcement, Enforcement::alone);
  Client b(arbiters, {"b", {2}});
  a.wait_for(TurnState::turn);
  EXPECT_EQ(arbiters.limit({1}).enforcement, Enforcement::turns);
  for (int i = 0; i < 5; ++i) {
    b.send(TurnOp::want);
    a.send(TurnOp::drained, a.wait_for(TurnState::closed));
    b.wait_for(TurnState::turn);
    b.send(TurnOp::drained, b.wait_for(TurnState::closed));
    a.wait_for(TurnState::turn);
  }
}

TEST(Arbiters, ShareInForceIsThatOfTheNewestGrant) {
  auto& arbiters = running_arbiters();
  EXPECT_EQ(arbiters.limit({1}).share.percent, 0u) << "it is not connected";
  Client a(arbiters, {"a", {1}});
  EXPECT_EQ(arbiters.limit({1}).share.percent, 30u);
  auto resized = allocation_of(20);
  resized.compute_mode = (uint32_t)control::ComputeMode::capped;
  arbiters.set_allocation("a", resized);
  EXPECT_EQ(arbiters.limit({1}).share.percent, 20u);
  EXPECT_EQ(arbiters.limit({1}).share.mode, control::ComputeMode::capped);
}

TEST(Arbiters, TurnThatDoesNotDrainIsReportedAndOpened) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  Client b(arbiters, {"b", {2}});
  a.wait_for(TurnState::turn);
  b.send(TurnOp::want);
  a.wait_for(TurnState::closed);
  b.wait_for(TurnState::turn);
  EXPECT_EQ(arbiters.limit({1}).enforcement, Enforcement::sliced);
  EXPECT_GE(arbiters.limit({1}).longest_drain_ms, 499u) << "it has not ended yet";
  EXPECT_EQ(arbiters.limit({2}).enforcement, Enforcement::turns);
}

TEST(Arbiters, WorkThatEndsLateAfterATurnIsReported) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  Client b(arbiters, {"b", {2}});
  a.wait_for(TurnState::turn);
  b.send(TurnOp::want);
  uint32_t turn = a.wait_for(TurnState::closed);
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(95);
  std::this_thread::sleep_until(end);  // the work of the turn
  a.send(TurnOp::drained, turn);
  b.wait_for(TurnState::turn);
  EXPECT_EQ(arbiters.limit({1}).enforcement, Enforcement::coarse);
  EXPECT_GE(arbiters.limit({1}).longest_drain_ms, 94u);
  EXPECT_EQ(arbiters.limit({2}).enforcement, Enforcement::turns);
  EXPECT_EQ(arbiters.limit({2}).longest_drain_ms, 0u);
}

Microseconds simulated_now = 1'000'000;

TEST(Arbiters, SharesAreKnownWhileAllocationsWorkInTurns) {
  Arbiters arbiters([] { return simulated_now; });
  for (auto* id : {"a", "b"}) arbiters.set_allocation(id, allocation_of(50));
  auto received = [&](size_t i) {
    return arbiters.shares().at(i).received[0];
  };
  Client a(arbiters, {"a", {1}});
  simulated_now += 10'000'000;
  EXPECT_TRUE(arbiters.shares().empty());
  auto b = std::make_unique<Client>(arbiters, Account{"b", {2}});
  simulated_now += 4'000'000;
  arbiters.step(0);
  EXPECT_EQ(received(0), 10'000u);  // the work that was under way counts as its turn
  EXPECT_EQ(received(1), 0u);
  b.reset();
  arbiters.step(0);
  simulated_now += 70'000'000;
  EXPECT_TRUE(arbiters.shares().empty());
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

// Two allocations on the same two GPUs.
struct OnTwoGpus {
  OnTwoGpus() {
    control::Allocation both = allocation_of(50);
    both.partitions = 2;
    both.partition[1] = both.partition[0];
    both.partition[1].gpu_uuid[0] = 1;
    for (auto* id : {"a", "b"}) arbiters.set_allocation(id, both);
    a = std::make_unique<Client>(arbiters, Account{"a", {1}});
    b = std::make_unique<Client>(arbiters, Account{"b", {2}});
    b->send(TurnOp::want, 0, 0);
    b->send(TurnOp::want, 0, 1);
    a->drain_both();
  }
  Arbiters& arbiters = running_arbiters();
  std::unique_ptr<Client> a, b;
};

TEST(Arbiters, AllocationGetsTurnsOnTwoGpusTogether) {
  OnTwoGpus gpus;
  for (int i = 0; i < 5; ++i) {
    for (uint32_t p : {0u, 1u}) gpus.b->wait_for(TurnState::turn, p);
    for (uint32_t p : {0u, 1u}) EXPECT_EQ(gpus.a->state(p), TurnState::closed);
    gpus.b->drain_both();
    for (uint32_t p : {0u, 1u}) gpus.a->wait_for(TurnState::turn, p);
    for (uint32_t p : {0u, 1u}) EXPECT_EQ(gpus.b->state(p), TurnState::closed);
    gpus.a->drain_both();
  }
}

TEST(Arbiters, TurnOnTwoGpusLastsWhileOneOfThemHasWork) {
  OnTwoGpus gpus;
  for (uint32_t p : {0u, 1u}) gpus.b->wait_for(TurnState::turn, p);
  // It has no more work on one GPU for now.
  gpus.b->report_idle(gpus.b->wait_for(TurnState::turn, 1), 1);
  gpus.b->send(TurnOp::drained, gpus.b->wait_for(TurnState::closed));
  for (uint32_t p : {0u, 1u}) gpus.a->wait_for(TurnState::turn, p);
}

TEST(Arbiters, EndOfASessionOnTwoGpusGivesBothToTheOther) {
  OnTwoGpus gpus;
  gpus.b.reset();
  for (uint32_t p : {0u, 1u}) gpus.a->wait_for(TurnState::open, p);
}

// In the time of the test, without a thread.
Microseconds g_now = 1'000'000;

TEST(Arbiters, NeighbourOnOneOfTwoGpusCanCome) {
  Arbiters arbiters([] { return g_now; });
  arbiters.set_allocation("both", half_of({0, 1}));
  arbiters.set_allocation("first", half_of({0}));
  arbiters.set_allocation("second", half_of({1}));
  Client both(arbiters, {"both", {1}}), first(arbiters, {"first", {2}});
  both.report_idle(both.wait_for(TurnState::turn));
  first.send(TurnOp::want);
  arbiters.step(0);
  both.send(TurnOp::want);
  arbiters.step(0);
  Client second(arbiters, {"second", {3}});  // connects at once, while `both` waits for the first
  EXPECT_TRUE(arbiters.is_connected({3}));
}

// `both` has the first GPU for itself. Returns whether its work there gets a turn after that.
bool gets_a_turn_after_an_open_page(bool waits_on_the_second_gpu) {
  Arbiters arbiters([] { return g_now; });
  for (const char* id : {"first", "third"}) arbiters.set_allocation(id, half_of({0}));
  arbiters.set_allocation("both", half_of({0, 1}));
  arbiters.set_allocation("second", half_of({1}));
  Client second(arbiters, {"second", {3}}), both(arbiters, {"both", {1}});
  if (waits_on_the_second_gpu) both.send(TurnOp::want, 0, 1);
  arbiters.step(0);
  EXPECT_EQ(both.state(0), TurnState::open);
  Client third(arbiters, {"third", {4}});
  EXPECT_EQ(both.state(0), TurnState::closed);
  second.report_idle(second.turn(0));
  arbiters.step(0);
  return both.state(0) == TurnState::turn;
}

TEST(Arbiters, WorkThatWaitsWhenAPageIsNoLongerOpenGetsATurn) {
  for (bool waits_on_the_second_gpu : {true, false})
    EXPECT_TRUE(gets_a_turn_after_an_open_page(waits_on_the_second_gpu));
}

// Its turn is over, its work on the second GPU has ended, and more waits there.
TEST(Arbiters, SessionThatEndsWhileItWaitsOnOneOfTwoGpusKeepsNoOtherFromItsTurns) {
  Arbiters arbiters([] { return g_now; });
  for (const char* id : {"ended", "both"}) arbiters.set_allocation(id, half_of({0, 1}));
  arbiters.set_allocation("second", half_of({1}));
  auto ended = std::make_unique<Client>(arbiters, Account{"ended", {1}});
  Client idle(arbiters, {"ended", {2}});
  Client both(arbiters, {"both", {3}}), second(arbiters, {"second", {4}});
  for (uint32_t p : {0u, 1u}) idle.report_idle(idle.turn(p), p);
  for (uint32_t p : {0u, 1u}) both.send(TurnOp::want, 0, p);
  for (int i = 0; i < 100 && ended->state(1) != TurnState::closed; ++i) {
    arbiters.step(0);
    g_now += 1'000;
  }
  ASSERT_EQ(ended->state(1), TurnState::closed);
  ended->send(TurnOp::drained, ended->turn(1), 1);
  arbiters.step(0);
  ended.reset();
  std::set<uint32_t> turns;
  for (Microseconds end = g_now + 2'000'000; g_now < end; g_now += 1'000) {
    second.send(TurnOp::want);
    second.end_turn();
    for (uint32_t p : {0u, 1u}) both.end_turn(p);
    arbiters.step(0);
    if (both.state(0) == TurnState::turn) turns.insert(both.turn(0));
  }
  EXPECT_GE(turns.size(), 20u) << "one of every 100 ms";
}

// Its work on the first GPU never ends, and may wait for work that has no turn.
TEST(Arbiters, LateAllocationOnTwoGpusGetsTurns) {
  Arbiters arbiters([] { return g_now; });
  arbiters.set_allocation("both", half_of({0, 1}));
  arbiters.set_allocation("first", half_of({0}));
  arbiters.set_allocation("second", half_of({1}));
  Client first(arbiters, {"first", {2}}), second(arbiters, {"second", {3}});
  Client both(arbiters, {"both", {1}});
  for (uint32_t p : {0u, 1u}) both.send(TurnOp::want, 0, p);
  std::set<uint32_t> turns;
  for (Microseconds end = g_now + 20'000'000; g_now < end; g_now += 500) {
    for (const Client* other : {&first, &second}) {
      other->send(TurnOp::want);
      other->end_turn();
    }
    both.end_turn(1);
    arbiters.step(0);
    if (both.state(0) == TurnState::turn) turns.insert(both.turn(0));
  }
  EXPECT_GE(turns.size(), 10u) << "one each second";
}

TEST(Arbiters, SessionThatComesBackDuringTheTurnOfAnotherSeesANewTurn) {
  auto& arbiters = running_arbiters();
  Client other(arbiters, {"b", {3}});
  Client first(arbiters, {"a", {1}});
  Client second(arbiters, {"a", {2}});
  for (auto* session : {&first, &second}) session->send(TurnOp::want);
  other.send(TurnOp::drained, other.wait_for(TurnState::closed));
  uint32_t turn = first.wait_for(TurnState::turn);
  second.wait_for(TurnState::turn);
  first.report_idle(turn);
  first.wait_for(TurnState::closed);
  first.send(TurnOp::want, turn);
  EXPECT_NE(first.wait_for(TurnState::turn), turn);
}

// It worked without the launcher meanwhile, and knows only what the page shows.
TEST(Arbiters, SessionThatReportsAnEarlierTurnAgainGetsAnother) {
  auto& arbiters = running_arbiters();
  Client b(arbiters, {"b", {2}});
  Client a(arbiters, {"a", {1}});
  a.send(TurnOp::want);
  b.send(TurnOp::drained, b.wait_for(TurnState::closed));
  uint32_t turn = a.wait_for(TurnState::turn);
  a.report_idle(turn);
  b.wait_for(TurnState::turn);
  a.send(TurnOp::drained, turn);
  ASSERT_TRUE(b.shows(TurnState::closed));
  b.report_idle(control::turn_of_word(b.page->word[0]));
  EXPECT_TRUE(a.shows(TurnState::turn));
}

TEST(Arbiters, PageShowsBeatsWhileItIsNotOpen) {
  static Microseconds now = 1'000'000;
  Arbiters arbiters([] { return now; });
  for (auto* id : {"a", "b"}) arbiters.set_allocation(id, allocation_of(50));
  Client a(arbiters, {"a", {1}});
  arbiters.step(0);
  EXPECT_EQ(arbiters.next_deadline(), Arbiter::kNever) << "no timer while the GPU is idle";
  Client b(arbiters, {"b", {2}});
  EXPECT_EQ(b.page->beat, 1u) << "a launcher that stops before its first beat counts as stopped";
  for (uint32_t beat = 2; beat < 5; ++beat) {
    arbiters.step(0);
    EXPECT_EQ(a.page->beat, beat);
    EXPECT_EQ(b.page->beat, beat);
    now += control::kBeatMs * 1000;
    EXPECT_LE(arbiters.next_deadline(), now);
  }
}

TEST(Arbiters, EndOfASessionGivesTheGpuToTheOther) {
  auto& arbiters = running_arbiters();
  auto a = std::make_unique<Client>(arbiters, Account{"a", {1}});
  Client b(arbiters, {"b", {2}});
  a.reset();
  b.wait_for(TurnState::open);
}

// A session server whose program keeps the GPU for 300 ms and ends, again and again.
TEST(Arbiters, SessionsDoNotTakeTheirDebtsWithThem) {
  auto& arbiters = running_arbiters();
  Client b(arbiters, {"b", {2}});
  auto begin = std::chrono::steady_clock::now();
  std::chrono::milliseconds kept{0};
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(3)) {
    Client a(arbiters, {"a", {1}});
    a.send(TurnOp::want);
    b.send(TurnOp::want);
    for (uint8_t message; control::state_of_word(a.page->word[0]) != TurnState::turn;) {
      if (control::state_of_word(b.page->word[0]) == TurnState::closed)
        b.send(TurnOp::drained, control::turn_of_word(b.page->word[0]));
      (void)!recv(a.socket, &message, sizeof message, MSG_DONTWAIT);
      usleep(500);
    }
    usleep(300'000);
    kept += std::chrono::milliseconds(300);
  }
  auto all = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(kept, all / 2) << "30 percent are granted";
}

TEST(Arbiters, AllocationThatIsNoLongerGrantedKeepsItsSessionsOnly) {
  Arbiters arbiters([] { return g_now; });
  for (const char* id : {"a", "b"}) arbiters.set_allocation(id, allocation_of(50));
  Client a(arbiters, {"a", {1}}), b(arbiters, {"b", {2}});
  arbiters.keep([](auto& id) { return id == "b"; });
  EXPECT_LT(arbiters.connect({"a", {3}}), 0);
  b.send(TurnOp::want);
  a.report_idle(a.turn(0));
  arbiters.step(0);
  EXPECT_EQ(b.state(0), TurnState::turn);
  EXPECT_EQ(a.state(0), TurnState::closed);
  g_now += 4'000'000;
  EXPECT_EQ(arbiters.shares().size(), 1u);
}

// Work of an allocation lasts for 800 ms, and the allocation ends. Returns after how many turns of
// a neighbour the next allocation, of tenant `tenant`, gets one.
int turns_until_the_next_allocation_gets_one(uint8_t tenant, bool ends_before_its_session) {
  Arbiters arbiters([] { return g_now; });
  auto grant = [&](const char* id, uint8_t of_tenant) {
    control::Allocation a = allocation_of(50);
    a.tenant[0] = of_tenant;
    arbiters.set_allocation(id, a);
  };
  grant("neighbour", 1);
  grant("first", 2);
  auto first = std::make_unique<Client>(arbiters, Account{"first", {1}});
  Client neighbour(arbiters, {"neighbour", {2}});
  neighbour.send(TurnOp::want);
  for (int i = 0; i < 2; ++i) {
    g_now += 400'000;
    arbiters.step(0);
  }
  auto is_granted = [](auto& id) {
    return id == "neighbour";
  };
  if (ends_before_its_session) arbiters.keep(is_granted);
  first.reset();
  arbiters.step(0);
  if (!ends_before_its_session) arbiters.keep(is_granted);
  grant("second", tenant);
  Client second(arbiters, {"second", {3}});
  second.send(TurnOp::want);
  int turns = 0;
  for (; second.state(0) != TurnState::turn && turns < 1000; ++turns) {
    g_now += Arbiter::kTurn;
    arbiters.step(0);
    neighbour.end_turn();
    arbiters.step(0);
  }
  return turns;
}

TEST(Arbiters, NextAllocationOfATenantTakesOverTheDebtOfTheLastOne) {
  for (bool ends_first : {true, false}) {
    EXPECT_LE(turns_until_the_next_allocation_gets_one(3, ends_first), 10);
    EXPECT_GE(turns_until_the_next_allocation_gets_one(2, ends_first), 50);
  }
}

// Returns how many of 40 turns of two allocations the one gets that has run beside an ended one of
// its tenant. Its program may be replaced by a next one.
int turns_beside_an_ended_allocation(bool replaces_its_program) {
  Arbiters arbiters([] { return g_now; });
  auto grant = [&](const char* id, uint8_t tenant) {
    control::Allocation a = allocation_of(30);
    a.tenant[0] = tenant;
    arbiters.set_allocation(id, a);
  };
  for (const char* id : {"ended", "running"}) grant(id, 2);
  grant("neighbour", 1);
  auto ended = std::make_unique<Client>(arbiters, Account{"ended", {1}});
  auto running = std::make_unique<Client>(arbiters, Account{"running", {2}});
  Client neighbour(arbiters, {"neighbour", {3}});
  for (Client* c : {running.get(), &neighbour}) c->send(TurnOp::want);
  arbiters.step(0);
  g_now += 400'000;
  ended.reset();
  arbiters.step(0);
  arbiters.keep([](auto& id) { return id != "ended"; });
  grant("running", 2);  // as each message of the agent does
  if (replaces_its_program) {
    running.reset();
    arbiters.step(0);
    running = std::make_unique<Client>(arbiters, Account{"running", {4}});
    running->send(TurnOp::want);
    arbiters.step(0);
  }
  int turns = 0;
  for (int i = 0; i < 40; ++i) {
    turns += running->state(0) == TurnState::turn;
    g_now += Arbiter::kTurn;
    arbiters.step(0);
    for (Client* c : {running.get(), &neighbour}) c->end_turn();
    arbiters.step(0);
  }
  return turns;
}

TEST(Arbiters, RunningAllocationDoesNotPayForAnotherOneOfItsTenant) {
  for (bool replaces : {false, true}) EXPECT_GE(turns_beside_an_ended_allocation(replaces), 15);
}

// How many places the arbiters look at for turns of two sessions on one GPU, while so many others
// take turns on a second one.
uint64_t places_seen_for_turns(uint32_t others) {
  Arbiters arbiters([] { return Microseconds(1'000'000); });
  control::Allocation here = allocation_of(50), there = allocation_of(1);
  there.partition[0].gpu_uuid[0] = 1;
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 2 + others; ++i) {
    std::string id = std::to_string(i);
    arbiters.set_allocation(id, i < 2 ? here : there);
    clients.push_back(std::make_unique<Client>(arbiters, Account{id, {(uint8_t)i}}));
  }
  for (auto& c : clients) {
    c->send(TurnOp::want);
    arbiters.step(0);
  }
  uint64_t before = arbiters.places_seen();
  for (int turn = 0; turn < 10; ++turn) {
    const Client& holder = *clients[clients[0]->state(0) == TurnState::turn ? 0 : 1];
    EXPECT_EQ(holder.state(0), TurnState::turn);
    holder.send(TurnOp::drained, control::turn_of_word(holder.page->word[0]));
    arbiters.step(0);
  }
  return arbiters.places_seen() - before;
}

TEST(Arbiters, CostOfATurnDoesNotDependOnTheSessionsOfOtherGpus) {
  EXPECT_EQ(places_seen_for_turns(100), places_seen_for_turns(1));
}

TEST(Arbiters, PageCannotBeMappedWritable) {
  int socket = running_arbiters().connect({"a", {1}}), page = -1;
  control::Header head;
  ASSERT_TRUE(control::receive_message(socket, head, nullptr, 0, &page));
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0), MAP_FAILED);
  EXPECT_LT(pwrite(page, "x", 1, 0), 0);
  for (int fd : {socket, page}) close(fd);
}

TEST(Arbiters, SessionThatBreaksTheProtocolLosesItsConnection) {
  auto& arbiters = running_arbiters();
  Client a(arbiters, {"a", {1}});
  a.send(TurnOp::want, 0, 7);
  uint8_t message;
  while (recv(a.socket, &message, sizeof message, 0) > 0) {
  }
  EXPECT_EQ(arbiters.limit({1}).enforcement, Enforcement::unenforced);
}

TEST(Arbiters, AllocationWithoutGrantGetsNoConnection) {
  EXPECT_LT(running_arbiters().connect({"unknown", {1}}), 0);
}

// Waits until the gate may submit, or may not.

}  // namespace
}  // namespace busbar::launcher
