// Suspension: a request of the launcher that comes while the session is in another phase.
#include "server/suspension.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "control/messages.h"
#include "server/pipeline.h"
#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

using control::LedgerAnswer;
using control::LedgerOp;
using control::LedgerRequest;

constexpr uint32_t kPatienceMs = 60'000;
constexpr uint64_t kHostBytes = 1 << 30;

// The test is the launcher: it answers the requests of the session.
class SuspensionTest : public testing::Test {
 protected:
  SuspensionTest() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    launcher = pair[1];
    t.account.connect(pair[0]);
  }
  ~SuspensionTest() override { close(launcher); }

  LedgerRequest receive(LedgerOp op) {
    LedgerRequest request{};
    EXPECT_EQ(recv(launcher, &request, sizeof request, 0), (ssize_t)sizeof request);
    EXPECT_EQ((LedgerOp)request.op, op);
    return request;
  }
  void answer(const LedgerRequest& request, bool granted) {
    LedgerAnswer answer{request.sequence, granted, 0};
    EXPECT_EQ(send(launcher, &answer, sizeof answer, MSG_NOSIGNAL), (ssize_t)sizeof answer);
  }
  bool comes_true(bool (Suspension::*state)() const) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!(suspension.*state)() && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return (suspension.*state)();
  }

  TestSession t;
  int launcher = -1;
  StreamQueues queues{t.bulk, [](Record&) { return Outcome::done; }};
  Completions completions{*t.session};
  FenceRecorder fences{*t.session, queues, completions};
  Workers workers{t.cu};
  Pipeline pipeline{*t.session, queues, fences, workers, {}, false, {}};
  Suspension suspension{pipeline};
};

TEST_F(SuspensionTest, RequestInAnotherPhaseBeginsWhenTheSessionRuns) {
  suspension.request(kPatienceMs, kHostBytes);
  EXPECT_TRUE(suspension.holds(false));
  LedgerRequest saved = receive(LedgerOp::suspended);
  suspension.request(kPatienceMs, kHostBytes);  // the launcher has given up the first one
  answer(saved, false);
  ASSERT_TRUE(comes_true(&Suspension::is_suspended));
  EXPECT_TRUE(suspension.holds(false));
  answer(receive(LedgerOp::resumed), true);
  EXPECT_TRUE(comes_true(&Suspension::is_draining)) << "the launcher waits for an answer";
}

// Its image would not be in the books of the launcher.
TEST_F(SuspensionTest, SessionThatTheLauncherDoesNotCallSuspendedGoesOn) {
  suspension.request(kPatienceMs, kHostBytes);
  EXPECT_TRUE(suspension.holds(false));
  answer(receive(LedgerOp::suspended), false);
  ASSERT_TRUE(comes_true(&Suspension::is_suspended));
  suspension.request(kPatienceMs, kHostBytes);
  EXPECT_TRUE(suspension.holds(false));
  EXPECT_FALSE(suspension.is_suspended());
  answer(receive(LedgerOp::resumed), true);
}

// Such as work for a turn, or a copy whose data has not come.
TEST_F(SuspensionTest, RecordsThatHaveNotBegunDoNotPreventIt) {
  StreamState st;
  st.id = 16;
  Record r;
  r.head.bytes = sizeof r.head;
  Dependencies data{.transfer = 1, .bytes = 1};
  EXPECT_TRUE(queues.park(st, r, data));
  suspension.request(kPatienceMs, kHostBytes);
  EXPECT_TRUE(suspension.holds(true));
  EXPECT_TRUE(suspension.has_drained());
  answer(receive(LedgerOp::suspended), true);
  ASSERT_TRUE(comes_true(&Suspension::is_suspended));
  EXPECT_TRUE(suspension.holds(true));
  EXPECT_FALSE(suspension.is_suspended()) << "they run when the memory is back";
  answer(receive(LedgerOp::resumed), true);
}

// A host function may wait for work of another stream.
TEST_F(SuspensionTest, WorkBeginsWhileAHostFunctionRuns) {
  pipeline.host_functions[1] = {};
  suspension.request(kPatienceMs, kHostBytes);
  EXPECT_FALSE(suspension.holds(true));
  EXPECT_FALSE(suspension.keeps_work());
  pipeline.host_functions.clear();
  EXPECT_TRUE(suspension.keeps_work());
}

}  // namespace
}  // namespace busbar::server
