// Suspension in the ledger: the host budget, the order of the states, restarts and false claims.
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "launcher/ledger.h"
#include "launcher/pidfd.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using control::LedgerAnswer;
using control::LedgerOp;
using control::LedgerRequest;
using control::Suspension;
using server::TemporaryFolder;

constexpr uint64_t kSuspensionLimit = 1000, kCharged = 600, kHost = 10'000;
constexpr int64_t kDeadlineMs = 50;
const SessionId kFirst{1}, kSecond{2};

class LedgerSuspensionTest : public testing::Test {
 protected:
  LedgerSuspensionTest() { restart(); }
  ~LedgerSuspensionTest() override { close(pidfd); }

  // As a new launcher does.
  void restart() {
    ledger = Ledger::open(folder.ledger());
    ledger->set_limits(&kSuspensionLimit, 1);
    for (auto& id : {kFirst, kSecond}) ledger->add(id, (uint32_t)getpid(), 1, pidfd);
  }
  // Sends the next request of a session. The answer has no sequence number if it waits.
  LedgerAnswer send(LedgerOp op, uint64_t bytes = 0, const SessionId& id = kFirst) {
    LedgerRequest request{sequence[id] + 1, (uint32_t)op, 0, bytes, {}};
    LedgerAnswer answer{};
    EXPECT_TRUE(ledger->apply(id, request, answer));
    if (answer.sequence) ++sequence[id];
    return answer;
  }
  bool begin(uint64_t room = kHost) {
    return ledger->begin_suspension(kFirst, room, kDeadlineMs).empty();
  }
  Suspension state() const { return (Suspension)ledger->suspension_of(kFirst).state; }
  std::string reason() const { return ledger->suspension_of(kFirst).reason; }
  // As a session does that has saved its memory.
  void suspend() {
    send(LedgerOp::reserve, kCharged);
    ASSERT_TRUE(begin());
    send(LedgerOp::release, kCharged);
    ASSERT_TRUE(send(LedgerOp::suspended).granted);
  }

  TemporaryFolder folder;
  const int pidfd = open_pidfd(getpid());
  std::unique_ptr<Ledger> ledger;
  std::map<SessionId, uint64_t> sequence;
};

TEST_F(LedgerSuspensionTest, SuspensionGoesThroughItsStates) {
  suspend();
  EXPECT_EQ(state(), Suspension::suspended);
  EXPECT_EQ(ledger->charged(0), 0u);
  EXPECT_EQ(ledger->host_bytes(), kCharged);
  EXPECT_TRUE(send(LedgerOp::resume, kCharged).granted);
  EXPECT_EQ(state(), Suspension::restoring);
  EXPECT_EQ(ledger->charged(0), kCharged);
  send(LedgerOp::resumed);
  EXPECT_EQ(state(), Suspension::none);
  EXPECT_EQ(ledger->host_bytes(), 0u);
}

TEST_F(LedgerSuspensionTest, ResumptionWaitsForFreeMemory) {
  suspend();
  EXPECT_TRUE(send(LedgerOp::reserve, kSuspensionLimit, kSecond).granted);
  EXPECT_EQ(send(LedgerOp::resume, kCharged).sequence, 0u);
  EXPECT_EQ(state(), Suspension::waiting);
  EXPECT_EQ(ledger->charged(0), kSuspensionLimit);
  send(LedgerOp::release, kCharged, kSecond);
  EXPECT_TRUE(send(LedgerOp::resume, kCharged).granted);
  EXPECT_EQ(ledger->charged(0), kSuspensionLimit);
}

TEST_F(LedgerSuspensionTest, FullHostBudgetRefusesAndChangesNothing) {
  send(LedgerOp::reserve, kCharged);
  EXPECT_FALSE(begin(kCharged - 1));
  EXPECT_EQ(state(), Suspension::none);
  EXPECT_EQ(ledger->host_bytes(), 0u);
  EXPECT_TRUE(begin(kCharged));
  EXPECT_FALSE(begin(kCharged)) << "it has begun";
}

TEST_F(LedgerSuspensionTest, ConfirmationThatNobodyWaitsForIsNotGranted) {
  EXPECT_FALSE(send(LedgerOp::suspended).granted);
  EXPECT_EQ(state(), Suspension::none);
  suspend();
  EXPECT_FALSE(send(LedgerOp::suspended).granted);
  EXPECT_EQ(state(), Suspension::suspended);
}

TEST_F(LedgerSuspensionTest, SessionThatDoesNotAnswerIsLeftRunning) {
  send(LedgerOp::reserve, kCharged);
  ASSERT_TRUE(begin());
  EXPECT_TRUE(ledger->abandon_late_suspensions(kDeadlineMs - 1).empty());
  EXPECT_EQ(ledger->abandon_late_suspensions(kDeadlineMs), std::vector<SessionId>{kFirst});
  EXPECT_EQ(state(), Suspension::none);
  EXPECT_EQ(ledger->host_bytes(), 0u);
  EXPECT_EQ(ledger->charged(0), kCharged);
  EXPECT_FALSE(send(LedgerOp::suspended).granted) << "too late";
}

TEST_F(LedgerSuspensionTest, StateAndHostMemorySurviveARestart) {
  suspend();
  restart();
  EXPECT_EQ(state(), Suspension::suspended);
  EXPECT_EQ(ledger->host_bytes(), kCharged);
  ledger->abandon_suspension(kFirst, "told too late");
  EXPECT_EQ(state(), Suspension::suspended);
}

TEST_F(LedgerSuspensionTest, AbandonedSuspensionHasItsReason) {
  ASSERT_TRUE(begin());
  LedgerRequest request{sequence[kFirst] + 1, (uint32_t)LedgerOp::kept, 0, 0, "a graph runs"};
  LedgerAnswer answer{};
  ASSERT_TRUE(ledger->apply(kFirst, request, answer));
  EXPECT_EQ(state(), Suspension::none);
  EXPECT_EQ(reason(), "a graph runs");
}

TEST_F(LedgerSuspensionTest, ReasonOfASessionHasNoControlCharacters) {
  ASSERT_TRUE(begin());
  LedgerRequest request{sequence[kFirst] + 1, (uint32_t)LedgerOp::kept, 0, 0, "a\x1b[2Jb\nc\xff"};
  LedgerAnswer answer{};
  ASSERT_TRUE(ledger->apply(kFirst, request, answer));
  EXPECT_EQ(reason(), "a\\x1b[2Jb\\x0ac\\xff");
}

// Otherwise a session would save more than the host memory that it is charged for.
TEST_F(LedgerSuspensionTest, SessionThatGrowsMeanwhileIsNotSuspended) {
  send(LedgerOp::reserve, kCharged);
  ASSERT_TRUE(begin(kCharged));
  EXPECT_TRUE(send(LedgerOp::reserve, kSuspensionLimit - kCharged).granted);
  EXPECT_EQ(state(), Suspension::none);
  EXPECT_EQ(ledger->host_bytes(), 0u);
  EXPECT_EQ(reason(), "its program has allocated memory meanwhile");
  EXPECT_FALSE(send(LedgerOp::suspended).granted);
}

TEST_F(LedgerSuspensionTest, RefusedReservationChangesNoSuspension) {
  send(LedgerOp::reserve, kCharged);
  ASSERT_TRUE(begin());
  EXPECT_FALSE(send(LedgerOp::reserve, kSuspensionLimit).granted);
  EXPECT_EQ(state(), Suspension::suspending);
}

// The other states have no deadline, so a session that was not suspended must not reach them.
TEST_F(LedgerSuspensionTest, ClaimToResumeBeforeTheConfirmationEndsTheSuspension) {
  send(LedgerOp::reserve, kCharged);
  for (uint64_t bytes : {uint64_t{0}, kSuspensionLimit}) {  // at once, and after a wait
    ASSERT_TRUE(begin());
    send(LedgerOp::resume, bytes);
    EXPECT_EQ(state(), Suspension::none) << bytes;
    EXPECT_EQ(ledger->host_bytes(), 0u) << bytes;
  }
}

TEST_F(LedgerSuspensionTest, EndOfASessionFreesItsHostMemory) {
  suspend();
  ledger->end(kFirst);
  EXPECT_EQ(ledger->host_bytes(), 0u);
}

// The request of the waiting session is answered with the release of the other one.
TEST(LedgerPortSuspensionTest, ReleaseAnswersAWaitingRequest) {
  TemporaryFolder own;
  fuzz::OwnLauncher launcher(own.path(), {kSuspensionLimit});
  server::Account waiting({kSuspensionLimit}), running({kSuspensionLimit});
  ASSERT_TRUE(launcher.connect(waiting, 1));
  ASSERT_TRUE(launcher.connect(running, 2));
  ASSERT_TRUE(running.reserve(0, kCharged));
  auto resumed = std::async(std::launch::async, [&] { waiting.reserve_when_free(0, kCharged); });
  EXPECT_EQ(resumed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  running.release(0, kCharged);
  resumed.get();
  EXPECT_EQ(waiting.charged_here(0), kCharged);
}

}  // namespace
}  // namespace busbar::launcher
