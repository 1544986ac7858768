// Ledger: requests that wait for memory which other sessions do not use.
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/ledger.h"
#include "launcher/pidfd.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using control::LedgerAnswer;
using control::LedgerOp;
using control::LedgerRequest;
using server::TemporaryFolder;

constexpr uint64_t kReclaimLimit = 1000, kReclaimContext = 100;
constexpr int64_t kUntilMs = 50;
const SessionId kAsking{1}, kHolding{2}, kOther{3};

class LedgerReclaimTest : public testing::Test {
 protected:
  LedgerReclaimTest() { restart(); }
  ~LedgerReclaimTest() override { close(pidfd); }

  // As a new launcher does.
  void restart() {
    ledger = Ledger::open(folder.ledger());
    ledger->set_limits(&kReclaimLimit, 1, &kReclaimContext);
    for (auto& id : {kAsking, kHolding, kOther}) ledger->add(id, (uint32_t)getpid(), 1, pidfd);
  }
  // Sends the next request of a session. The answer has no sequence number if it waits.
  LedgerAnswer send(const SessionId& id, LedgerOp op, uint64_t bytes = 0) {
    LedgerRequest request{sequence[id] + 1, (uint32_t)op, 0, bytes, {}};
    LedgerAnswer answer{};
    EXPECT_TRUE(ledger->apply(id, request, answer));
    if (answer.sequence) ++sequence[id];
    return answer;
  }
  bool waits(const SessionId& id, uint64_t bytes) {
    return !send(id, LedgerOp::reclaim, bytes).sequence;
  }
  std::vector<SessionId> asked() { return ledger->take_asked(kUntilMs); }

  TemporaryFolder folder;
  const int pidfd = open_pidfd(getpid());
  std::unique_ptr<Ledger> ledger;
  std::map<SessionId, uint64_t> sequence;
};

TEST_F(LedgerReclaimTest, RequestThatFitsAsksNoSession) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(send(kAsking, LedgerOp::reclaim, 300).granted);
  EXPECT_TRUE(asked().empty());
}

TEST_F(LedgerReclaimTest, RequestWithoutRoomAsksEachSessionWithMemoryOnce) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_EQ(asked(), std::vector{kHolding}) << "the third session has no memory";
  EXPECT_TRUE(waits(kAsking, 400)) << "the same request is tried again";
  EXPECT_TRUE(asked().empty());
}

TEST_F(LedgerReclaimTest, RequestThatCanNeverFitAsksNoSession) {
  send(kHolding, LedgerOp::reserve, 600);
  LedgerAnswer answer = send(kAsking, LedgerOp::reclaim, kReclaimLimit - kReclaimContext + 1);
  EXPECT_TRUE(answer.sequence && !answer.granted);
  EXPECT_TRUE(asked().empty());
}

TEST_F(LedgerReclaimTest, RequestIsGrantedWhenMemoryIsReturned) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_EQ(ledger->charged(0), 600u);
  send(kHolding, LedgerOp::release, 100);
  EXPECT_TRUE(send(kAsking, LedgerOp::reclaim, 400).granted) << "before the session has answered";
  EXPECT_EQ(ledger->charged(0), 900u);
}

TEST_F(LedgerReclaimTest, RequestIsRefusedWhenAllSessionsHaveAnswered) {
  send(kHolding, LedgerOp::reserve, 300);
  send(kOther, LedgerOp::reserve, 300);
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_EQ(asked().size(), 2u);
  send(kOther, LedgerOp::returned);
  EXPECT_TRUE(waits(kAsking, 400));
  send(kHolding, LedgerOp::returned);
  LedgerAnswer answer = send(kAsking, LedgerOp::reclaim, 400);
  EXPECT_TRUE(answer.sequence);
  EXPECT_FALSE(answer.granted);
  EXPECT_EQ(ledger->charged(0), 600u);
}

TEST_F(LedgerReclaimTest, SessionThatCannotAnswerIsNotWaitedFor) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(waits(kAsking, 400));
  asked();
  EXPECT_TRUE(ledger->expire_asked(kUntilMs - 1));
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_FALSE(ledger->expire_asked(kUntilMs));
  EXPECT_FALSE(waits(kAsking, 400));
  EXPECT_TRUE(waits(kAsking, 400)) << "the next request asks again";
  asked();
  ledger->note_returned(kHolding);
  EXPECT_FALSE(waits(kAsking, 400)) << "it could not be told";
  EXPECT_TRUE(waits(kAsking, 400));
  ledger->end(kHolding);
  EXPECT_TRUE(send(kAsking, LedgerOp::reclaim, 400).granted);
}

TEST_F(LedgerReclaimTest, SessionsDoNotWaitForEachOther) {
  send(kAsking, LedgerOp::reserve, 400);
  send(kHolding, LedgerOp::reserve, 500);
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_FALSE(waits(kHolding, 400)) << "it waited for a session that waits";
}

TEST_F(LedgerReclaimTest, OrdinaryRequestDoesNotWait) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(send(kAsking, LedgerOp::reserve, 400).sequence);
  EXPECT_TRUE(asked().empty());
}

TEST_F(LedgerReclaimTest, ContextWithoutRoomAsksAsWell) {
  send(kHolding, LedgerOp::open_context);
  send(kHolding, LedgerOp::reserve, 850);
  EXPECT_FALSE(send(kAsking, LedgerOp::open_context).sequence);
  EXPECT_EQ(asked(), std::vector{kHolding});
  send(kHolding, LedgerOp::release, 50);
  EXPECT_TRUE(send(kAsking, LedgerOp::open_context).granted);
  EXPECT_EQ(ledger->held(0), 1000u);
}

TEST_F(LedgerReclaimTest, SuspendedSessionIsNotAsked) {
  send(kHolding, LedgerOp::reserve, 600);
  ASSERT_EQ(ledger->begin_suspension(kHolding, 10'000, kUntilMs), "");
  EXPECT_FALSE(waits(kAsking, 400));
  EXPECT_TRUE(asked().empty());
}

TEST_F(LedgerReclaimTest, RequestThatWaitsIsMadeAgainToTheNextLauncher) {
  send(kHolding, LedgerOp::reserve, 600);
  EXPECT_TRUE(waits(kAsking, 400));
  restart();
  EXPECT_TRUE(waits(kAsking, 400));
  EXPECT_EQ(asked(), std::vector{kHolding});
  EXPECT_EQ(ledger->charged(0), 600u);
}

}  // namespace
}  // namespace busbar::launcher
